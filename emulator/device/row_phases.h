// Row nodes: every row goes through the phases of the node (reductions, numbers, elements that are kept), then through
// its deliver program; what several of these read is brought once.
//
// Where code is made for a node on a device (TREK_SPECIALISED), a row is in registers: a warp has a tile of the reduction
// order, 32 elements of a lane, as in long_rows.h. Elsewhere rows are staged: a group of them is in shared memory, and
// where one array is held the next group on its way. Nothing here can trap.
#pragma once

#include "emulator/device/copies.h"
#include "emulator/device/long_rows.h"
#include "emulator/device/reduce.h"
#include "emulator/device/row_form.h"

#ifdef TREK_SPECIALISED
#define TREK_ROW_PROGRAM(N)                                                                        \
  TREK_ON_DEVICE uint32_t trek_row_program_##N(                                                    \
      std::byte* arena, const uint32_t* addresses, const uint64_t* scalars, const uint32_t* mains, \
      const uint32_t* numbers, int64_t first, int64_t ahead);
// Program N of a row node (row_program()) at element first + ahead, of whose row `first` is an element: the main values,
// and the numbers of the row.
extern "C" {
TREK_ROW_PROGRAM(0)
TREK_ROW_PROGRAM(1)
TREK_ROW_PROGRAM(2)
TREK_ROW_PROGRAM(3)
TREK_ROW_PROGRAM(4)
TREK_ROW_PROGRAM(5)
TREK_ROW_PROGRAM(6)
TREK_ROW_PROGRAM(7)
TREK_ROW_PROGRAM(8)
TREK_ROW_PROGRAM(9)
TREK_ROW_PROGRAM(10)
TREK_ROW_PROGRAM(11)
TREK_ROW_PROGRAM(12)
}
#undef TREK_ROW_PROGRAM
#endif

namespace trek::device {

namespace row_detail {

inline constexpr uint32_t kTile = semantics::kReductionTile;

TREK_UNIT uint32_t tiles_of(const Phases& of) { return (of.n + kTile - 1) / kTile; }

// What a reduction gives, from the sum (or product, ...) of its terms.
TREK_UNIT float finished(const Phase& phase, uint32_t n, float value) {
  const auto opcode = static_cast<Opcode>(phase.opcode);
  if (opcode == Opcode::Mean) return value / static_cast<float>(n);
  return opcode == Opcode::Norm2 ? semantics::sqrt(value) : value;
}

#ifdef TREK_SPECIALISED

TREK_UNIT uint32_t value_of(const Task& task, uint32_t which, int64_t first, int64_t ahead,
                            const uint32_t* mains, const uint32_t* numbers) {
  static_assert(kRowPrograms == 13);
  const Context& in = task.context();
#define TREK_CASE(N)                                                                           \
  case N:                                                                                      \
    return trek_row_program_##N(in.arena, in.addresses, task.scalars(), mains, numbers, first, \
                                ahead);
  switch (which) {
    TREK_CASE(0)
    TREK_CASE(1)
    TREK_CASE(2)
    TREK_CASE(3)
    TREK_CASE(4)
    TREK_CASE(5)
    TREK_CASE(6)
    TREK_CASE(7)
    TREK_CASE(8)
    TREK_CASE(9)
    TREK_CASE(10)
    TREK_CASE(11)
    default:
      return trek_row_program_12(in.arena, in.addresses, task.scalars(), mains, numbers, first,
                                 ahead);
  }
#undef TREK_CASE
}

// Calls f(p) for the node's phases, each from a place of its own.
template <uint32_t kPhase = 0, class F>
TREK_TILE void each_phase(const Phases& of, F f) {
  if constexpr (kPhase < kMaxPhases) {
    if (kPhase >= of.phases) return;
    f(kPhase);
    each_phase<kPhase + 1>(of, f);
  }
}

#else

template <class F>
TREK_UNIT void each_phase(const Phases& of, F f) {
  TREK_ROLLED
  for (uint32_t p = 0; p < of.phases; ++p) f(p);
}

#endif

inline constexpr uint32_t kMains = kMaxHeld + kMaxColumns;
inline constexpr uint32_t kRows = 256;  // of a group, at most
#if defined(TREK_SPECIALISED) && defined(__CUDA__)
// In shared memory: columns; the ring of what is brought; the results of tiles, of two turns.
inline constexpr uint32_t kColumns = shared_at::kSlots;
inline constexpr uint32_t kRing = kColumns + 4 * kColumnWords;
inline constexpr uint32_t kSums = kRing + kMostRowThreads / 32 * rows::kPlaces * rows::kPlaceBytes;
static_assert(kSums + kMostRowThreads / 32 * 4 * 2 * kMaxPhases <= kSharedBytes);
#else
// In shared memory: two arrays for what is held, of this group or of the next; the terms of a reduction; columns; the
// results of tiles, the numbers of each phase.
inline constexpr uint32_t kHeld = shared_at::kValues;
inline constexpr uint32_t kArray = 4 * kLongRow;
inline constexpr uint32_t kTerms = shared_at::kWork;
inline constexpr uint32_t kColumns = kTerms + kArray;
inline constexpr uint32_t kSums = kColumns + 4 * kColumnWords;
inline constexpr uint32_t kNumbers = kSums + 4 * kRows;
static_assert(kMaxHeld * kArray <= kValuesBytes);
static_assert(kNumbers + 4 * kMaxPhases * kRows <= kSharedBytes);
#endif
static_assert(kRowSlots * kNarrowElements * 4 * kMaxBlockThreads <= kSlotBytes);

TREK_UNIT Aliased<uint32_t>* words_at(const Task& task, uint32_t at) {
  return task.shared<Aliased<uint32_t>>(at);
}
TREK_UNIT uint32_t column_at(const Phases& of, uint32_t column) {
  return kColumns + 4 * column * of.n;
}

// Brings elements in line to shared memory, in the narrow form; floats in fours are on their way at the end.
TREK_UNIT_CALL void bring_line(Task task, const Operand& from, int64_t first, uint32_t count,
                               uint32_t at) {
  const auto type = static_cast<DType>(from.dtype);
  const std::byte* memory = task.memory(from) + first * size_of(type);
#ifdef __CUDA__
  if (size_of(type) == 4 && count % 4 == 0 && (first * 4 + from.offset) % 16 == 0) {
    TREK_ROLLED
    for (uint32_t p = 4 * task.thread(); p < count; p += 4 * task.threads())
      copy_ahead<16>(shared_address(task.shared<std::byte>(at + 4 * p)), memory + 4 * p);
    return;
  }
#endif
  auto* to = words_at(task, at);
  for (uint32_t p = task.thread(); p < count; p += task.threads()) to[p] = load32(memory, type, p);
}
TREK_UNIT void bring_columns(const Task& task) {
  const Phases& of = task.node().phases();
  TREK_UNROLLED
  for (uint32_t c = 0; c < kMaxColumns; ++c)
    if (c < of.columns)
      bring_line(task, task.node().operand(of.column[c]), 0, of.n, column_at(of, c));
  commit_copies();
}

#if defined(TREK_SPECIALISED) && defined(__CUDA__)

// ---- in registers --------------------------------------------------------------------------------

using rows::Part;
using rows::Tile;

// A row as a warp's lanes have it.
struct Row {
  Tile held[kMaxHeld];
  uint32_t numbers[kMaxPhases];
};

// A lane's elements of a tile, 32 from one to the next, of which element(i) gives the i-th.
template <class Element>
TREK_TILE Tile tile_of(const Part& part, Element element) {
  Tile tile;
  TREK_UNROLLED
  for (uint32_t i = 0; i < rows::kOfTile; ++i) tile.x[i] = part.has(i) ? element(i) : 0.0f;
  return tile;
}
// Of an operand that cannot be copied as it lies.
TREK_TILE Tile bring(const Task& task, const Part& part, const Operand& from, int64_t begin) {
  const int64_t first = begin + part.first + part.lane;
  return tile_of(part, [&](uint32_t i) TREK_TILE_LAMBDA {
    return as_float(load32(task.memory(from), static_cast<DType>(from.dtype), first + 32 * i));
  });
}

// What an elements' program, or the last one, gives for a tile of row `number`.
TREK_TILE Tile make_elements(const Task& task, const Part& part, const Row& row, uint32_t which,
                             int64_t number) {
  const Phases& of = task.node().phases();
  Tile made{};
  TREK_UNROLLED
  for (uint32_t i = 0; i < rows::kOfTile; ++i) {
    if (!part.has(i)) continue;
    const uint32_t k = part.first + part.lane + 32 * i;
    uint32_t mains[kMains];
    TREK_UNROLLED
    for (uint32_t h = 0; h < kMaxHeld; ++h) mains[h] = bits_of(row.held[h].x[i]);
    TREK_UNROLLED
    for (uint32_t c = 0; c < kMaxColumns; ++c)
      mains[kMaxHeld + c] = c < of.columns ? words_at(task, column_at(of, c))[k] : 0;
    made.x[i] = as_float(value_of(task, which, number * of.n, k, mains, row.numbers));
  }
  return made;
}

// All terms of a row joined, for all lanes that have it. Warps of a row exchange at `at`, a number for each; a sync in
// between where there are several.
TREK_TILE float join_row(const Task& task, const Part& part, const Tile& terms, Joining how,
                         uint32_t at) {
  const auto by = [how](float a, float b) TREK_TILE_LAMBDA { return join(how, a, b); };
  float value = terms.x[0];
  TREK_UNROLLED
  for (uint32_t i = 1; i < rows::kOfTile; ++i)
    if (part.has(i)) value = by(value, terms.x[i]);
  value = rows::fold(value, part.lane, part.length, by);
  if (part.n <= kTile) return rows::from_lane(value, 0);
  auto* of_warps = task.shared<float>(at);
  if (part.lane == 0) of_warps[part.warp] = value;
  part.sync();
  value = part.lane < part.tiles ? of_warps[part.row * part.tiles + part.lane] : 0.0f;
  return rows::from_lane(rows::fold(value, part.lane, part.tiles, by), 0);
}

// What a phase gives for row `number`.
TREK_TILE void run_phase(const Task& task, const Part& part, uint32_t p, int64_t number,
                         uint32_t at, Row& row) {
  const Phase& phase = task.node().phases().phase[p];
  Tile terms{};
  if (phase.kind != Phase::numbers) terms = make_elements(task, part, row, p, number);
  if (phase.kind == Phase::keep) {
    row.held[phase.held] = terms;
    return;
  }
  uint32_t main[kMains] = {};
  if (phase.kind == Phase::reduction) {
    const auto opcode = static_cast<Opcode>(phase.opcode);
    if (opcode == Opcode::Norm2) {
      TREK_UNROLLED
      for (float& term : terms.x) term = term * term;
    }
    main[0] = bits_of(finished(phase, part.n, join_row(task, part, terms, joining_of(opcode), at)));
  }
  row.numbers[p] = value_of(task, kMaxPhases + p, number, 0, main, row.numbers);
}

// Rows [first, end).
TREK_TILE void run_rows(const Task& task, int64_t first, int64_t end) {
  const Node& node = task.node();
  const Phases& of = node.phases();
  const Part part(task, of.n);
  // Of one operand two rows are on their way, of two the next row.
  const uint32_t ahead = of.brought == 1 ? rows::kPlaces : 1;
  const auto ring_of = [&](uint32_t h) TREK_TILE_LAMBDA {
    const Operand& operand = node.operand(of.operand[h]);
    return rows::TileRing(task, part, operand, static_cast<DType>(operand.dtype), kRing, h, ahead);
  };
  const auto ask = [&](int64_t number, uint32_t turn) TREK_TILE_LAMBDA {
    TREK_UNROLLED
    for (uint32_t h = 0; h < kMaxHeld; ++h)
      if (h < of.brought && part.has_row() && number < end &&
          rows::can_be_copied(node.operand(of.operand[h]), of.n))
        ring_of(h).ask(task, number, turn);
    commit_copies();
  };
  bring_columns(task);
  for (uint32_t i = 0; i < ahead; ++i) ask(first + part.row + i * part.rows, i);
  if (of.columns != 0) {
    wait_for_copies(ahead);
    task.sync();
  }
  if (!part.has_row()) return;
  uint32_t turn = 0;
  TREK_ROLLED
  for (int64_t own = first + part.row; own < end; own += part.rows, ++turn) {
    Row row{};
    wait_for_copies(ahead - 1);
    rows::warp_meets();
    TREK_UNROLLED
    for (uint32_t h = 0; h < kMaxHeld; ++h) {
      if (h >= of.brought) continue;
      const Operand& from = node.operand(of.operand[h]);
      row.held[h] = rows::can_be_copied(from, of.n) ? ring_of(h).tile(task, turn)
                                                    : bring(task, part, from, own * of.n);
    }
    rows::warp_meets();
    ask(own + ahead * part.rows, turn);
    each_phase(of, [&](uint32_t p) TREK_TILE_LAMBDA {
      // What a warp reads there another may write again two turns later.
      run_phase(task, part, p, own,
                kSums + kMostRowThreads / 32 * 4 * (p + kMaxPhases * (turn % 2)), row);
      const uint8_t result = of.phase[p].result;
      if (result != Phase::kNoResult && part.first == 0 && part.lane == 0)
        store32(task.memory(node.result(result)), static_cast<DType>(node.result(result).dtype),
                own, row.numbers[p]);
    });
    if (of.gives_elements == 0) continue;
    // Nothing is stored before all is loaded: loads would wait for stores in between.
    const Tile made = make_elements(task, part, row, kRowDeliver, own);
    const Operand& to = node.result(0);
    const int64_t begin = own * of.n + part.first + part.lane;
    TREK_UNROLLED
    for (uint32_t i = 0; i < rows::kOfTile; ++i)
      if (part.has(i))
        store32(task.memory(to), static_cast<DType>(to.dtype), begin + 32 * i, bits_of(made.x[i]));
  }
}

#else

// ---- staged --------------------------------------------------------------------------------------

// Rows [first, first + rows), whose first held array is at byte `held` of the shared memory.
struct Rows {
  int64_t first;
  uint32_t rows;
  uint32_t held;
  TREK_ON_DEVICE uint32_t array(uint32_t i) const { return held + i * kArray; }
};
TREK_UNIT Rows group_at(const Phases& of, int64_t first, int64_t end, uint32_t held) {
  const uint32_t fit = kLongRow / of.n;
  const uint32_t most = fit < kRows ? fit : kRows;
  return {first, end - first < most ? static_cast<uint32_t>(end - first) : most, held};
}
TREK_UNIT Aliased<uint32_t>* number_of(const Task& task, uint32_t phase, uint32_t line) {
  return words_at(task, kNumbers) + (phase * kRows + line);
}

#ifdef TREK_SPECIALISED

// Calls give(p, bits) for the elements p of a group's rows with what a program gives.
template <class Give>
TREK_UNIT void each_element(const Task& task, uint32_t which, const Rows& group, Give give) {
  const Phases& of = task.node().phases();
  for (uint32_t line = 0; line < group.rows; ++line) {
    uint32_t numbers[kMaxPhases] = {};
    TREK_UNROLLED
    for (uint32_t p = 0; p < kMaxPhases; ++p)
      if (p < of.phases) numbers[p] = *number_of(task, p, line);
    for (uint32_t k = 0; k < of.n; ++k) {
      const uint32_t p = line * of.n + k;
      uint32_t mains[kMains] = {};
      TREK_UNROLLED
      for (uint32_t h = 0; h < kMaxHeld; ++h)
        if (h < of.held) mains[h] = words_at(task, group.array(h))[p];
      TREK_UNROLLED
      for (uint32_t c = 0; c < kMaxColumns; ++c)
        if (c < of.columns) mains[kMaxHeld + c] = words_at(task, column_at(of, c))[k];
      give(p, value_of(task, which, (group.first + line) * of.n, k, mains, numbers));
    }
  }
}
TREK_UNIT void give_elements(const Task& task, const Rows& group) {
  const Operand& to = task.node().result(0);
  const int64_t begin = group.first * task.node().phases().n;
  each_element(task, kRowDeliver, group, [&](uint32_t p, uint32_t bits) {
    store32(task.memory(to), static_cast<DType>(to.dtype), begin + p, bits);
  });
}
TREK_UNIT void stage_elements(const Task& task, uint32_t which, const Rows& group, uint32_t at) {
  auto* to = words_at(task, at);
  each_element(task, which, group, [&](uint32_t p, uint32_t bits) { to[p] = bits; });
}
TREK_UNIT uint32_t run_tail(const Task& task, uint32_t p, const Rows& group, uint32_t line,
                            uint32_t main) {
  uint32_t numbers[kMaxPhases] = {};
  TREK_UNROLLED
  for (uint32_t i = 0; i < kMaxPhases; ++i)
    if (i < p) numbers[i] = *number_of(task, i, line);
  const uint32_t mains[kMains] = {main};
  return value_of(task, kMaxPhases + p, group.first + line, 0, mains, numbers);
}

#else

using program_detail::Four;

// Where a program is executed: element `element` of the index space of its operands, of row `line` of a group; the first
// held element is at byte `held` of the shared memory, the first column at byte `column`. Four elements, or one.
struct Spot {
  int64_t element;
  uint32_t held;
  uint32_t column;
  uint32_t line;
  bool four;
};
TREK_UNIT uint32_t main_at(const Task& task, const Spot& spot, uint32_t index) {
  if (index < kMaxHeld) return spot.held + index * kArray;
  return spot.column + 4 * (index - kMaxHeld) * task.node().phases().n;
}

TREK_UNIT Four load(const Task& task, const Operand& from, const Spot& spot) {
  const auto type = static_cast<DType>(from.dtype);
  const int64_t place = place_here(task.node(), from.map, spot.element);
  if (spot.four && from.map.kind != Map::one)
    return program_detail::load_in_line(task.memory(from) + place * size_of(type), type);
  const uint32_t one = load32(task.memory(from), type, place);
  return {{one, one, one, one}};
}

TREK_UNIT Four value(const Task& task, Source source, const Spot& spot) {
  uint32_t one = 0;
  switch (source.kind) {
    case Source::slot:
      return program_detail::get(task, {program_detail::slot_at(task, source.index), false});
    case Source::main:
      return program_detail::get(task, {main_at(task, spot, source.index), !spot.four});
    case Source::number:
      one = *number_of(task, source.index, spot.line);
      break;
    case Source::scalar:
      one = static_cast<uint32_t>(task.scalar(source.index));
      break;
    default:
      break;
  }
  return {{one, one, one, one}};
}

// A step that is called, element by element.
TREK_UNIT_CALL void step_slowly(Task task, const Step& step, const Spot& spot) {
  TREK_ROLLED
  for (uint32_t e = 0; e < (spot.four ? 4 : 1); ++e)
    task.shared<Aliased<uint32_t>>(program_detail::slot_at(task, step.slot))[e] =
        program_detail::step_one(task, step, spot.element + e, [&](Source source) {
          if (source.kind == Source::slot)
            return program_detail::get_one(task,
                                           {program_detail::slot_at(task, source.index), false}, e);
          if (source.kind == Source::main)
            return uint32_t{words_at(task, main_at(task, spot, source.index))[e]};
          return value(task, source, spot).e[0];
        });
}

TREK_UNIT Four run_program(const Task& task, const Program& program, const Spot& spot) {
  const Node& node = task.node();
  TREK_ROLLED
  for (uint32_t l = 0; l < program.loads; ++l) {
    const Load next = *node.load(program.first_load + l);
    program_detail::put(task, program_detail::slot_at(task, next.slot),
                        load(task, node.operand(next.operand), spot));
  }
  TREK_ROLLED
  for (uint32_t s = 0; s < program.steps; ++s) {
    const Step& step = *node.step(program.first_step + s);
    const auto opcode = static_cast<Opcode>(step.opcode);
    const auto from = static_cast<DType>(step.from);
    const auto to = static_cast<DType>(step.to);
    const bool simple = is_simple(opcode, from, to);
    const bool of_floats = form_of(from) == Form::real32 && opcode != Opcode::Cast;
    if (!simple && (spot.four || !of_floats)) {
      step_slowly(task, step, spot);
      continue;
    }
    const Four x = value(task, step.inputs[0], spot);
    const Four y = value(task, step.inputs[1], spot);
    const Four z = value(task, step.inputs[2], spot);
    Four made = x;
    if (simple) {
      made = program_detail::apply_simple(opcode, from, to, x, y, z);
    } else {
      const auto bits = static_cast<uint32_t>(
          apply_real32(opcode, x.e[0], y.e[0], z.e[0], value(task, step.numbers[0], spot).e[0],
                       value(task, step.numbers[1], spot).e[0]));
      made.e[0] = to == DType::boolean ? bits : bits_of(rounded(to, as_float(bits)));
    }
    program_detail::put(task, program_detail::slot_at(task, step.slot), made);
  }
  return value(task, program.result, spot);
}

// Calls give(p, values, four) for the elements of a group's rows with what a program gives: of four elements from p on,
// or of one that is there four times.
template <class Give>
TREK_UNIT void each_element(const Task& task, uint32_t which, const Rows& group, Give give) {
  const Phases& of = task.node().phases();
  const Program& program = row_program(task.node(), which);
  const uint32_t elements = group.rows * of.n;
  const bool four = program.flat != 0 && of.n % 4 == 0;
  const uint32_t each = four ? 4 : 1;
  TREK_ROLLED
  for (uint32_t p = each * task.thread(); p < elements; p += each * task.threads()) {
    const uint32_t line = p / of.n;
    const Spot spot{group.first * of.n + p, group.held + 4 * p, kColumns + 4 * (p - line * of.n),
                    line, four};
    give(p, run_program(task, program, spot), four);
  }
}
TREK_UNIT void give_elements(const Task& task, const Rows& group) {
  const Operand& to = task.node().result(0);
  const auto type = static_cast<DType>(to.dtype);
  const int64_t begin = group.first * task.node().phases().n;
  each_element(task, kRowDeliver, group, [&](uint32_t p, const Four& values, bool four) {
    if (!four ||
        !program_detail::store_four(task.memory(to) + (begin + p) * size_of(type), type, values))
      store32(task.memory(to), type, begin + p, values.e[0]);
  });
}
TREK_UNIT void stage_elements(const Task& task, uint32_t which, const Rows& group, uint32_t at) {
  each_element(task, which, group, [&](uint32_t p, const Four& values, bool four) {
    if (four)
      program_detail::put(task, at + 4 * p, values);
    else
      words_at(task, at)[p] = values.e[0];
  });
}
// The main value of a tail is where the row's number will be.
TREK_UNIT uint32_t run_tail(const Task& task, uint32_t p, const Rows& group, uint32_t line,
                            uint32_t main) {
  *number_of(task, p, line) = main;
  const Spot spot{group.first + line, kNumbers + 4 * (p * kRows + line), 0, line, false};
  return run_program(task, row_program(task.node(), kMaxPhases + p), spot).e[0];
}

#endif

// Brings a group's elements of operands to their arrays.
TREK_UNIT void bring(const Task& task, const Rows& group) {
  const Phases& of = task.node().phases();
  TREK_UNROLLED
  for (uint32_t h = 0; h < kMaxHeld; ++h)
    if (h < of.brought)
      bring_line(task, task.node().operand(of.operand[h]), group.first * of.n, group.rows * of.n,
                 group.array(h));
  commit_copies();
}

// The terms of a tile joined.
TREK_UNIT void join_tile(const Task& task, Opcode opcode, uint32_t at, uint32_t length, float* to) {
#ifdef __CUDA__
  const uint32_t lane = task.thread() % 32;
  const float joined = rows::join_shared(task, opcode, at, lane, length);
  if (lane == 0) *to = joined;
#else
  const auto* terms = task.shared<const float>(at);
  const Joining how = joining_of(opcode);
  const auto term = [&](uint32_t i) {
    return opcode == Opcode::Norm2 ? terms[i] * terms[i] : terms[i];
  };
  float sums[semantics::kPartials];
  const uint32_t present = length < semantics::kPartials ? length : semantics::kPartials;
  for (uint32_t j = 0; j < present; ++j) sums[j] = term(j);
  uint32_t i = semantics::kPartials;
  for (; i + semantics::kPartials <= length; i += semantics::kPartials)
    for (uint32_t j = 0; j < semantics::kPartials; ++j) sums[j] = join(how, sums[j], term(i + j));
  for (uint32_t j = 0; i + j < length; ++j) sums[j] = join(how, sums[j], term(i + j));
  semantics::fold(sums, static_cast<int>(present),
                  [how](float a, float b) { return join(how, a, b); });
  *to = sums[0];
#endif
}

// The terms of a group's rows joined, tile by tile.
TREK_UNIT void join_rows(const Task& task, Opcode opcode, uint32_t at, const Rows& group) {
#ifdef __CUDA__
  const uint32_t first = task.thread() / 32;
  const uint32_t step = task.threads() / 32;
#else
  const uint32_t first = task.thread();
  const uint32_t step = task.threads();
#endif
  const uint32_t n = task.node().phases().n;
  const uint32_t tiles = tiles_of(task.node().phases());
  TREK_ROLLED
  for (uint32_t q = first; q < group.rows * tiles; q += step) {
    const uint32_t line = tiles == 1 ? q : q / tiles;
    const uint32_t begin = (q - line * tiles) * kTile;
    join_tile(task, opcode, at + 4 * (line * n + begin), n - begin < kTile ? n - begin : kTile,
              task.shared<float>(kSums) + q);
  }
}

// What a phase gives for a group's rows. A sync at the end.
TREK_UNIT void run_phase(const Task& task, uint32_t p, const Rows& group) {
  const Node& node = task.node();
  const Phase& phase = node.phases().phase[p];
  const auto opcode = static_cast<Opcode>(phase.opcode);
  const uint32_t tiles = tiles_of(node.phases());
  const Source reduced = phase.elements.result;
  const bool lies = phase.kind == Phase::reduction && phase.elements.steps == 0 &&
                    reduced.kind == Source::main && reduced.index < kMaxHeld;
  uint32_t at = phase.kind == Phase::keep ? group.array(phase.held) : kTerms;
  if (lies) {
    at = group.array(reduced.index);
  } else if (phase.kind != Phase::numbers) {
    stage_elements(task, p, group, at);
    task.sync();
  }
  if (phase.kind == Phase::keep) return;
  if (phase.kind == Phase::reduction) {
    join_rows(task, opcode, at, group);
    task.sync();
  }
  for (uint32_t line = task.thread(); line < group.rows; line += task.threads()) {
    float value = 0;
    if (phase.kind == Phase::reduction) {
      float* sums = task.shared<float>(kSums) + line * tiles;
      const Joining how = joining_of(opcode);
      if (tiles > 1)
        semantics::fold(sums, static_cast<int>(tiles),
                        [how](float a, float b) { return join(how, a, b); });
      value = finished(phase, node.phases().n, sums[0]);
    }
    const uint32_t number = run_tail(task, p, group, line, bits_of(value));
    *number_of(task, p, line) = number;
    if (phase.result == Phase::kNoResult) continue;
    const Operand& to = node.result(phase.result);
    store32(task.memory(to), static_cast<DType>(to.dtype), group.first + line, number);
  }
  task.sync();
}

// Rows [first, end).
TREK_UNIT void run_rows(const Task& task, int64_t first, int64_t end) {
  const Phases& of = task.node().phases();
  const bool ahead = of.held == 1 && of.brought == 1;
  Rows group = group_at(of, first, end, kHeld);
  bring_columns(task);
  bring(task, group);
  TREK_ROLLED
  for (;;) {
    wait_for_copies(0);
    task.sync();
    const uint32_t other = ahead ? kHeld + kHeld + kArray - group.held : kHeld;
    const Rows next = group_at(of, group.first + group.rows, end, other);
    if (ahead && next.rows != 0) bring(task, next);
    each_phase(of, [&](uint32_t p) { run_phase(task, p, group); });
    if (of.gives_elements != 0) give_elements(task, group);
    if (next.rows == 0) return;
    if (!ahead) {
      task.sync();
      bring(task, next);
    }
    group = next;
  }
}

#endif

}  // namespace row_detail

// The unit of row nodes: rows [first, end).
TREK_UNIT_CALL void run_phases(Task task, int64_t first, int64_t end) {
#if defined(__CUDA__) && !defined(TREK_SPECIALISED)
  if (static_cast<RowForm>(task.node().phases().form) != RowForm::none)
    return row_form::run(task, first, end);
#endif
  row_detail::run_rows(task, first, end);
}

}  // namespace trek::device
