// The layout of a .tkb file, for whoever reads or writes one.
//
// All numbers are little-endian; u8 to u64 are unsigned, i64 is two's complement. `zero` fields and
// padding hold 0. A file is a header, a section table, and sections:
//
//   header, 32 bytes
//     0  u8[8]  magic: 89 54 52 45 4B 0D 0A 1A  ("\x89TREK\r\n\x1A": a text transfer breaks it)
//     8  u16    major version: 1
//    10  u16    minor version: the least that has everything the module uses; now 0
//    12  u32    number of sections n
//    16  u64    file size in bytes
//    24  u64    XXH3-64 of the section table
//   section table, n entries of 40 bytes, ascending by id
//     0  u32    id
//     4  u32    flags: 1 = must be understood (a reader that does not know the id refuses the file)
//     8  u32    alignment: a power of two, at most 4096
//    12  u32    zero
//    16  u64    offset in the file: the least multiple of the alignment at or after the end of what
//    is
//               before (the table, for the first); gaps are zero
//    24  u64    size in bytes, at least 1: an empty section is not written
//    32  u64    XXH3-64 of the section's bytes
//   The file ends where the last section does.
//
// Core sections (flags 1). A *ref* is a u32: kind in the top 4 bits (RefKind of isa/module.h),
// index in the others; 0 is none. A *string*, *type* or *constant* is a u32 index into that
// section.
//
//   id section       align  contents
//    1 strings         4    u32 count, u32 length × count, the bytes of all. These are strings 1, 2
//    ...;
//                           string 0 is "" and not written
//    2 types           8    72 bytes each: u8 dtype (isa/types.def), u8 scalar (0, 1), u8 rank,
//                           u8[5] zero, i64 dimension × 8 (those from rank on are 0)
//    3 constants       8    16 bytes each: u8 dtype, u8[7] zero, u64 bits (integers sign-extended
//    by
//                           their type, floats and bool zero-extended; a NaN is the type's quiet
//                           NaN)
//    4 lists           4    u32 each: a count, that many refs, a count ...; lists are not nested.
//                           A list's index is the position of its count
//    5 words           4    ref each
//    6 instructions    4    12 bytes each: u16 opcode, u16 results, u16 operands, u16 attributes,
//    u32
//                           first word. Of init, then of each function in order
//    7 tensors         8    24 bytes each: string name, type, u8 role, u8 source, u16 zero, u32
//                           external, u64 offset into data (external, offset: 0 where not meant)
//    8 params          4    12 bytes each: string name, u8 dtype, u8[3] zero, constant
//    9 functions       4    u32 count, 20 bytes each: string name, u32 parameters, u32 results, u32
//                           values, u32 instructions; then for each: u32 in-place flag (0, 1) ×
//                           parameters, type × results, type × values. The first is init
//   10 externals       8    32 bytes each: string format, path, member, u32 zero, u64 hash low,
//   high 11 tests           8    u32 count, u32 zero, 16 bytes each: string name, u32 trap, u32
//   bindings
//                           given, u32 bindings expected; then all bindings, 16 bytes each: ref
//                           target, u32 zero, u64 offset into data
//   12 data         4096    bytes of tensors and bindings, each at the next multiple of 64
//
// Optional sections (flags 0), the debug information:
//
//   32 debug strings   4    as strings; a *text* below is an index into these, 0 being ""
//   33 names           4    text for each value of each function (init has none)
//   34 lines           4    u32 file, u32 line, u32 column for each instruction of each function
//   35 sources         4    u32 count, u32 has texts (0, 1); then u32 length of name, u32 length of
//                           text for each file; then name and text of each
//   36 constants       4    text name, text expression
//   37 items           4    u32 kind, u32 index (a text, of a comment), text trailing comment
//   38 comments        4    u32 function, u32 instruction, u32 trailing (0, 1), text
//   39 spellings       4    u32 where, u32 function, u32 index, u32 slot, u32 element, text
//
// One encoding. Strings, types, constants and lists are numbered by first use, each distinct one
// once, nothing unused, in this walk: tensors (name, type, then format, path, member of an external
// one); params (name, value); init and each function (name, result types, value types, then
// instruction by instruction the words in order, a list's items before the list is numbered); tests
// (name). Words follow the instructions in order without gaps; externals the tensors that have one;
// data the tensors in order, then each test's given and expected bindings. Values are numbered:
// parameters, then as instructions define them (results, then registers of a region). Texts are
// numbered by first use in the order of the sections 33 to 39. init ends in `return` and so always
// has an instruction.
//
// Sections of other ids that need not be understood are kept and written again; debug sections
// whose entries would all be empty are not written.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <string_view>

#include "isa/module.h"

namespace trek::isa::format {

static_assert(std::endian::native == std::endian::little,
              "records are copied between file and memory as they are");

inline constexpr std::array<uint8_t, 8> kMagic{0x89, 'T', 'R', 'E', 'K', '\r', '\n', 0x1A};
inline constexpr uint32_t kMustUnderstand = 1;
inline constexpr uint32_t kMaxAlignment = 4096;

enum class SectionId : uint32_t {
  strings = 1,
  types = 2,
  constants = 3,
  lists = 4,
  words = 5,
  instructions = 6,
  tensors = 7,
  params = 8,
  functions = 9,
  externals = 10,
  tests = 11,
  data = 12,
  debug_strings = 32,
  names = 33,
  lines = 34,
  sources = 35,
  debug_constants = 36,
  items = 37,
  comments = 38,
  spellings = 39,
};

struct SectionInfo {
  SectionId id;
  std::string_view name;
  uint32_t alignment;
  uint32_t flags;
};
inline constexpr std::array<SectionInfo, 20> kSections{{
    {SectionId::strings, "strings", 4, kMustUnderstand},
    {SectionId::types, "types", 8, kMustUnderstand},
    {SectionId::constants, "constants", 8, kMustUnderstand},
    {SectionId::lists, "lists", 4, kMustUnderstand},
    {SectionId::words, "words", 4, kMustUnderstand},
    {SectionId::instructions, "instructions", 4, kMustUnderstand},
    {SectionId::tensors, "tensors", 8, kMustUnderstand},
    {SectionId::params, "params", 4, kMustUnderstand},
    {SectionId::functions, "functions", 4, kMustUnderstand},
    {SectionId::externals, "externals", 8, kMustUnderstand},
    {SectionId::tests, "tests", 8, kMustUnderstand},
    {SectionId::data, "data", kMaxAlignment, kMustUnderstand},
    {SectionId::debug_strings, "debug strings", 4, 0},
    {SectionId::names, "names", 4, 0},
    {SectionId::lines, "lines", 4, 0},
    {SectionId::sources, "sources", 4, 0},
    {SectionId::debug_constants, "debug constants", 4, 0},
    {SectionId::items, "items", 4, 0},
    {SectionId::comments, "comments", 4, 0},
    {SectionId::spellings, "spellings", 4, 0},
}};

inline const SectionInfo* find_section(uint32_t id) {
  for (const SectionInfo& section : kSections)
    if (static_cast<uint32_t>(section.id) == id) return &section;
  return nullptr;
}

struct Header {
  std::array<uint8_t, 8> magic;
  uint16_t major;
  uint16_t minor;
  uint32_t sections;
  uint64_t file_size;
  uint64_t checksum;
};
static_assert(sizeof(Header) == 32);

struct SectionEntry {
  uint32_t id;
  uint32_t flags;
  uint32_t alignment;
  uint32_t zero;
  uint64_t offset;
  uint64_t size;
  uint64_t checksum;
};
static_assert(sizeof(SectionEntry) == 40);

struct TypeRecord {
  uint8_t dtype;
  uint8_t scalar;
  uint8_t rank;
  std::array<uint8_t, 5> zero;
  std::array<int64_t, kMaxRank> dims;
};
static_assert(sizeof(TypeRecord) == 72);

struct ConstantRecord {
  uint8_t dtype;
  std::array<uint8_t, 7> zero;
  uint64_t bits;
};
static_assert(sizeof(ConstantRecord) == 16);

struct InstructionRecord {
  uint16_t opcode;
  uint16_t results;
  uint16_t operands;
  uint16_t attributes;
  uint32_t first;
};
static_assert(sizeof(InstructionRecord) == 12);

struct TensorRecord {
  uint32_t name;
  uint32_t type;
  uint8_t role;
  uint8_t source;
  uint16_t zero;
  uint32_t external;
  uint64_t offset;
};
static_assert(sizeof(TensorRecord) == 24);

struct ParamRecord {
  uint32_t name;
  uint8_t dtype;
  std::array<uint8_t, 3> zero;
  uint32_t value;
};
static_assert(sizeof(ParamRecord) == 12);

struct FunctionRecord {
  uint32_t name;
  uint32_t parameters;
  uint32_t results;
  uint32_t values;
  uint32_t instructions;
};
static_assert(sizeof(FunctionRecord) == 20);

struct ExternalRecord {
  uint32_t format;
  uint32_t path;
  uint32_t member;
  uint32_t zero;
  uint64_t hash_low;
  uint64_t hash_high;
};
static_assert(sizeof(ExternalRecord) == 32);

struct TestRecord {
  uint32_t name;
  uint32_t trap;
  uint32_t given;
  uint32_t expected;
};
static_assert(sizeof(TestRecord) == 16);

struct BindingRecord {
  uint32_t target;
  uint32_t zero;
  uint64_t offset;
};
static_assert(sizeof(BindingRecord) == 16);

struct LineRecord {
  uint32_t file;
  uint32_t line;
  uint32_t column;
};
struct NamedConstantRecord {
  uint32_t name;
  uint32_t text;
};
struct ItemRecord {
  uint32_t kind;
  uint32_t index;
  uint32_t comment;
};
struct CommentRecord {
  uint32_t function;
  uint32_t instruction;
  uint32_t trailing;
  uint32_t text;
};
struct SpellingRecord {
  uint32_t where;
  uint32_t function;
  uint32_t index;
  uint32_t slot;
  uint32_t element;
  uint32_t text;
};

}  // namespace trek::isa::format
