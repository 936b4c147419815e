#include "emulator/resident/gemv_nodes.h"

#include <algorithm>

#include "emulator/device/gemv_of.h"
#include "emulator/device/word_places.h"
#include "emulator/plan/node_uses.h"

namespace trek::resident {
namespace {

using device::Gemv;
using plan::kNone;

// Whether the kernel for chains has a unit for a node that is no GEMV.
bool is_for_chains(const GemvCandidate& candidate) {
  switch (candidate.kind) {
    case Kind::in_order:
    case Kind::early:
    case Kind::stays:
    case Kind::copied:
      return false;
    case Kind::thin:
    case Kind::long_thin:
      return true;
    default:
      break;
  }
  if (candidate.needs_full) return false;
  switch (static_cast<device::Kind>(candidate.node->kind)) {
    case device::Kind::matrix:
    case device::Kind::optimizer:
    case device::Kind::cross_entropy:
    case device::Kind::clip:
      return false;
    default:
      return true;
  }
}

// Whether each task of `reads` is the next of its processor behind the one of `made` that has the same tile.
bool is_next(const plan::Plan& plan, const std::vector<std::vector<uint32_t>>& tasks,
             const plan::Node& made, const plan::Node& reads) {
  if (made.tasks != reads.tasks || made.region != reads.region) return false;
  for (uint32_t t = 0; t < made.tasks; ++t) {
    const plan::Task& before = plan.tasks[made.first_task + t];
    const std::vector<uint32_t>& queue = tasks[before.processor];
    const auto at = std::ranges::lower_bound(queue, made.first_task + t);
    if (at + 1 == queue.end() || *(at + 1) != reads.first_task + t) return false;
    if (plan.tasks[*(at + 1)].first != before.first) return false;
  }
  return true;
}

// Whether what `made` gives is a line of each matrix of `to`, of `elements` outputs in all, in which `to` can have it in words.
bool take_line(const Gemv& made, int64_t elements, Gemv& to) {
  const uint32_t line = to.by_line != 0 ? to.k : to.n;
  const uint32_t lines = to.by_line != 0 ? to.n : to.k;
  const int64_t matrices = elements / to.n;
  const int64_t from_begin = made.result - to.right;
  const bool is_line = made.result_type == to.type && made.n == matrices * line &&
                       made.inner == line && 2 * made.outer == to.right_matrix && from_begin >= 0 &&
                       from_begin % to.pitch == 0 && from_begin / to.pitch < lines;
  const bool is_one_part = to.part_k == to.k && to.part_columns == to.columns;
  const uint32_t share = to.by_line != 0 ? to.k : to.columns;
  const auto form = static_cast<device::RowForm>(to.form);
  const uint32_t items = form == device::RowForm::softmax ? 0 : to.items;
  if (!is_line || !is_one_part || form == device::RowForm::norm || to.n % to.columns != 0 ||
      items > device::gemv::kLineThreads || share / 4 > device::gemv::kLineThreads)
    return false;
  to.items = items;
  to.written_line = static_cast<uint32_t>(from_begin / to.pitch);
  to.line_items = share / 4;
  return true;
}

}  // namespace

std::vector<std::optional<Gemv>> gemv_nodes(const plan::Plan& plan,
                                            std::span<const GemvCandidate> nodes) {
  std::vector<std::optional<Gemv>> found(nodes.size());
  if (!plan.fast || !plan.device.has_chains) return found;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (nodes[n].kind == Kind::thin || nodes[n].kind == Kind::long_thin)
      found[n] = device::gemv_of(*nodes[n].node);
    if (!found[n] && !is_for_chains(nodes[n]))
      return std::vector<std::optional<Gemv>>(nodes.size());
  }
  return found;
}

std::vector<std::optional<GemvLine>> gemv_lines(const plan::Plan& plan,
                                                std::span<const GemvCandidate> nodes,
                                                std::span<const std::optional<Gemv>> gemv) {
  std::vector<std::optional<GemvLine>> found(gemv.size());
  const std::vector<uint32_t> writers = plan::sole_writers(plan);
  for (uint32_t n = 0; n < gemv.size(); ++n) {
    if (!gemv[n] || gemv[n]->streams != 0) continue;
    const plan::Node& reads = plan.nodes[n];
    for (const plan::Operand& operand : reads.operands) {
      if (operand.kind != plan::Operand::Kind::view) continue;
      const uint32_t number = plan.view(operand.index).buffer;
      const uint32_t maker = writers[number];
      if (maker >= n || !gemv[maker] || plan.nodes[maker].region != reads.region ||
          gemv[n]->right != plan.buffers[number].offset)
        continue;
      std::optional<Gemv> as = device::gemv_of(*nodes[n].node, true);
      if (!as || !take_line(*gemv[maker], reads.main_type.shape.elements(), *as)) continue;
      as->row = gemv[n]->row;
      as->leaves_here = gemv[n]->leaves_here;
      found[n] = {maker, *as};
    }
  }
  return found;
}

void tell_words(Gemv& to, const TaggedNode& tagged, const device::Areas& areas, int64_t line) {
  to.result_words = areas.result;
  to.line_words = line;
  if (tagged.left == kNone) return;
  to.row = Gemv::words;
  to.left = areas.left;
  const bool is_f32 = static_cast<device::RowForm>(to.form) != device::RowForm::none;
  if (to.left_matrix != 0) to.left_matrix = device::kWord * (is_f32 ? to.k : to.k / 2);
  for (uint32_t s = 0; s < to.tails; ++s) {
    const device::GemvTail& tail = to.tail[s];
    if (tagged.beside == kNone || tail.operand == device::gemv::kMostBeside ||
        tail.step.index != areas.beside_operand)
      continue;
    device::GemvBeside& beside = to.beside[tail.operand];
    beside.offset = areas.beside;
    beside.shift = 3;
    beside.in_words = 1;
  }
}

void leave_rows_here(const plan::Plan& plan, const std::vector<std::vector<uint32_t>>& tasks,
                     std::span<std::optional<Gemv>> nodes) {
  for (size_t n = 0; n + 1 < nodes.size(); ++n) {
    if (!nodes[n] || !nodes[n + 1]) continue;
    Gemv& made = *nodes[n];
    Gemv& reads = *nodes[n + 1];
    const bool fits = static_cast<device::RowForm>(reads.form) == device::RowForm::softmax &&
                      reads.row == Gemv::memory && reads.left == made.result &&
                      made.inner == UINT32_MAX && made.across == 1 && made.n == reads.k &&
                      static_cast<isa::DType>(made.result_type) == isa::DType::f32 &&
                      reads.left_matrix == 4 * reads.k && reads.across == 1;
    if (!fits || !is_next(plan, tasks, plan.nodes[n], plan.nodes[n + 1])) continue;
    made.leaves_here = 1;
    reads.row = Gemv::here;
  }
}

int64_t gemv_count(const Gemv& of, uint32_t number) {
  using device::gemv::Count;
  if (of.streams == 0) return Count::kNotInStages;
  if (of.by_line != 0) return Count::kAsTheyLie;
  return of.packed == device::Areas::kNone ? Count::kNeverPacked : Count::kPackedFrom + number;
}

}  // namespace trek::resident
