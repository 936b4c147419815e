// Random modules that verify() accepts, from a seed: the same seed gives the same module everywhere.
//
// Instructions are drawn from ops.def: a row is chosen, its operands and attributes are made as its
// rules say, and what the tables cannot say (which shapes go together) comes from its shape rule. A new
// row of a known shape rule is generated without a change here. Programs end soon: loops make few
// trips, tensors are small, indices mostly in range.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "isa/builder.h"
#include "isa/module.h"

namespace trek::property {

struct RandomOptions {
  int functions = 3;        // besides main, at most
  int instructions = 12;    // of a region, at most
  int depth = 2;            // of nested regions, at most
  int64_t elements = 256;   // of a tensor, at most
  bool debug = true;        // names, comments, spellings, order of items
  bool tests = true;        // embedded tests; their expectations need not hold
  bool executable = false;  // leave out what cannot go on: trap, assert_finite, streams
};

isa::Module random_module(uint64_t seed, const RandomOptions& options = {});

// A generator of numbers whose sequence is the same with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint64_t bits() { return engine_(); }
  // 0 ... n - 1.
  uint64_t below(uint64_t n) { return n == 0 ? 0 : engine_() % n; }
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(below(static_cast<uint64_t>(high - low + 1)));
  }
  bool chance(int percent) { return below(100) < static_cast<uint64_t>(percent); }
  template <class T>
  const T& pick(const std::vector<T>& items) {
    return items[static_cast<size_t>(below(items.size()))];
  }
  template <class T, size_t N>
  const T& pick(const T (&items)[N]) {
    return items[static_cast<size_t>(below(N))];
  }

 private:
  std::mt19937_64 engine_;
};

// What a module has so far: where operands come from.
class RandomWorld {
 public:
  RandomWorld(isa::Module& module, Random& random, const RandomOptions& options)
      : module_(module), build_(module), random_(random), options_(options) {}

  isa::Builder& build() { return build_; }
  Random& random() { return random_; }
  const RandomOptions& options() const { return options_; }

  isa::Shape shape();
  isa::Shape shape_of_rank(int rank);
  int64_t dimension();
  isa::DType dtype(const isa::DTypeSet& set);
  // Bits of an element; small numbers mostly, every special value sometimes.
  uint64_t element(isa::DType dtype);
  isa::Ref immediate(isa::DType dtype) { return build_.constant(dtype, element(dtype)); }

  // A tensor that can be read: one that is there, or a new declaration.
  isa::Ref tensor(const isa::Type& type);
  // One whose elements are indices below `limit`.
  isa::Ref index_tensor(isa::DType dtype, const isa::Shape& shape, int64_t limit);
  // A tensor that can be written: an output, a state, an in-place parameter; not one of `taken`.
  isa::Ref place(const isa::Type& type, std::span<const isa::Ref> taken);
  isa::Ref stream(const isa::Type& type);
  // A scalar register, param or immediate.
  isa::Ref scalar(isa::DType dtype);
  isa::Ref value(const isa::Type& type) { return type.scalar ? scalar(type.dtype) : tensor(type); }
  isa::Ref declare(const isa::Type& type, isa::Role role);
  isa::Ref declare_param(isa::DType dtype);
  // A type of a value that is there, or a new one.
  isa::Type some_type();
  isa::Ref some_tensor(const isa::DTypeSet& set);

  void see(isa::Ref ref);  // a register is visible from here on
  size_t mark() const { return visible_.size(); }
  void forget(size_t mark) { visible_.resize(mark); }
  void add_initialisers();
  const std::vector<isa::Ref>& visible() const { return visible_; }

 private:
  bool is_readable(isa::Ref ref) const;
  void fill_bytes(std::vector<std::byte>& bytes, isa::DType dtype, int64_t count);

  isa::Module& module_;
  isa::Builder build_;
  Random& random_;
  const RandomOptions& options_;
  std::vector<isa::Ref> visible_;
};

// Adds one instruction of the row to the function at hand; false where the dice gave one that the rules
// refuse.
bool add_random_instruction(RandomWorld& world, const isa::Module& module, const isa::OpInfo& op);

// Names, comments, spellings and the order of items, as an assembler would have left them.
void add_random_debug(isa::Module& module, Random& random);

}  // namespace trek::property
