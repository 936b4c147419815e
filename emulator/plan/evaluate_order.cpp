// Instructions that put elements in order, and the permutation that sorts random words.
#include <algorithm>
#include <numeric>
#include <vector>

#include "emulator/plan/evaluate.h"
#include "isa/semantics/compare.h"
#include "isa/semantics/philox.h"

namespace trek::plan {
namespace {

using isa::DType;
using isa::Opcode;

// The indices that sort the keys, equal ones in their order.
std::vector<int64_t> sorted(const std::vector<uint64_t>& keys, bool descending) {
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const uint64_t x = keys[static_cast<size_t>(a)];
    const uint64_t y = keys[static_cast<size_t>(b)];
    if (x == y) return a < b;
    return descending ? x > y : x < y;
  });
  return order;
}

Faulted permutation(Work& work) {
  const isa::Type& type = work.result_type(0);
  const uint64_t key = semantics::seeded_key(work.key(), work.world.random_seed);
  const auto offset = static_cast<uint64_t>(work.integer("offset"));
  std::vector<uint64_t> words;
  for (int64_t i = 0; i < type.elements(); ++i)
    words.push_back(semantics::random_word(key, offset, static_cast<uint64_t>(i)));
  const std::vector<int64_t> order = sorted(words, false);
  for (size_t i = 0; i < order.size(); ++i)
    work.give(0, static_cast<int64_t>(i),
              cast_bits(DType::i64, work.node.main_type.dtype, static_cast<uint64_t>(order[i])));
  return std::nullopt;
}

}  // namespace

Faulted evaluate_order(Work& work) {
  const Opcode opcode = work.node.opcode;
  if (opcode == Opcode::Permutation) return permutation(work);
  const std::vector<int64_t> axes = axes_of(work.plan, work.node);
  const Lines lines = lines_of(work.type(0).shape, axes);
  const Lines results = lines_of(work.result_type(0).shape, axes);  // of k elements for top_k
  const bool top = opcode == Opcode::TopK;
  const bool descending = top ? !flag(work.node, "smallest") : flag(work.node, "descending");
  const bool whole = work.node.tiling == Tiling::whole;
  const int64_t first = whole ? 0 : work.task.first;
  const int64_t count = whole ? lines.lines : work.task.count;
  for (int64_t line = first; line < first + count; ++line) {
    std::vector<uint64_t> keys;
    for (int64_t k = 0; k < lines.n; ++k) {
      const uint64_t bits = work.operand(0, lines.element(line, k));
      keys.push_back(with_type(work.type(0).dtype, [&](auto tag) -> uint64_t {
        return semantics::order_key(unpack<decltype(tag)>(bits));
      }));
    }
    const std::vector<int64_t> order = sorted(keys, descending);
    for (int64_t k = 0; k < results.n; ++k) {
      const int64_t from = order[static_cast<size_t>(k)];
      const int64_t to = results.element(line, k);
      if (opcode != Opcode::Argsort) work.give(0, to, work.operand(0, lines.element(line, from)));
      if (opcode == Opcode::Sort) continue;
      const size_t result = top ? 1 : 0;
      const DType type = top ? work.result_type(1).dtype : work.node.main_type.dtype;
      work.give(result, to, cast_bits(DType::i64, type, static_cast<uint64_t>(from)));
    }
  }
  return std::nullopt;
}

}  // namespace trek::plan
