// What a product wants in its descriptor, whichever unit it goes to, and several thin ones that a program joins.
#include <algorithm>
#include <bit>
#include <cstdlib>
#include <set>
#include <utility>

#include "emulator/device/brought.h"
#include "emulator/device/describe_product.h"
#include "emulator/device/describer.h"
#include "emulator/device/element.h"
#include "emulator/device/matrix_cut.h"
#include "emulator/device/matrix_narrow_cut.h"
#include "emulator/device/matrix_small_cut.h"
#include "emulator/device/matrix_thin_cut.h"
#include "emulator/plan/product.h"

namespace trek::device {

using isa::DType;
using isa::Opcode;
using isa::Shape;
using plan::Attribute;
using Input = Draft::Input;

bool Describer::is_immutable(size_t operand) const {
  return plan_.buffers[plan_.view(of_.operands[operand].index).buffer].immutable;
}

// Scale, bias and tail of a product as steps in the accumulator's type, then the conversion to its own.
Draft Describer::product_draft(const plan::Factors& of, DType accumulator) {
  const Shape& out = of.type.shape;
  Draft draft;
  Input main{Input::Kind::main, 0};
  const auto add = [&](Opcode opcode, DType to_type, Input second) {
    Draft::Step step;
    step.opcode = opcode;
    step.from = accumulator;
    step.to = to_type;
    step.inputs[0] = main;
    step.inputs[1] = second;
    draft.steps.push_back(step);
    main = {Input::Kind::step, static_cast<uint32_t>(draft.steps.size() - 1)};
  };
  const Attribute& scale = plan::attribute(of_.opcode, *of.attributes, "scale");
  if (scale.given)
    add(Opcode::Mul, accumulator,
        {Input::Kind::scalar, record_.scalar(scale.items[0], accumulator)});
  if (of.bias != plan::kNone)
    add(Opcode::Add, accumulator,
        {Input::Kind::operand, record_.operand(of_.operands[of.bias], type(of.bias),
                                               record_.map(broadcast(out, type(of.bias).shape)))});
  const Attribute& tail_of = plan::attribute(of_.opcode, *of.attributes, "tail");
  if (tail_of.given) {
    plan::MicroStep step;
    step.opcode = static_cast<Opcode>(tail_of.items[0].index);
    step.from = step.to = accumulator;
    step.inputs[0].from = plan::MicroStep::From::main;
    record_.append(draft, {step}, out, main);
    main = draft.result;
  }
  if (of.type.dtype != accumulator) add(Opcode::Cast, of.type.dtype, {});
  draft.result = main;
  draft.dtype = of.type.dtype;
  return draft;
}

// Several thin products that a program joins (matrix_thin_group.h).
void Describer::describe_group() {
  Matrix& to = node_.matrix;
  const DType element = type(0).dtype;
  const size_t products = plan::products_of(of_);
  programs({}, {converted(DType::f32, main_type())}, DType::f32);
  node_.fetch[0].narrow = node_.deliver[0].narrow;
  to.product = static_cast<uint8_t>(Product::thin);
  to.cut = {};
  to.thin = {};
  ThinGroup& group = to.thin.group;
  group.products = static_cast<uint8_t>(products);
  group.place_bits =
      static_cast<uint8_t>(std::countr_zero(kBlockThreads / std::bit_ceil(products)));
  int64_t rights = 0;  // where all of them begin: only as many lower bits as are the same count
  bool immutable = true;
  for (size_t p = 0; p < products; ++p) {
    const size_t right = plan::factors_of(of_, p).right;
    uint32_t entry = 1;
    if (p > 0) entry = record_.operand(of_.operands[right], type(right), {0, 0, Map::same});
    if (p == 1) group.others = static_cast<uint8_t>(entry);
    rights |= record_.offset(entry);
    immutable = immutable && is_immutable(right);
  }
  to.thin.cut = thin_cut_of(to, {record_.offset(0), rights, size_of(element), element == DType::f32,
                                 immutable, static_cast<uint32_t>(products)});
  to.thin.cut.in_fours = in_fours();
  group.panel =
      static_cast<uint32_t>(to.tile_columns) *
      (to.thin.cut.by_line != 0 ? to.thin.cut.blocks * to.thin.cut.row : size_of(element));
  for (size_t p = 0; p < products; ++p)
    describe_group_tail(record_, product_draft(plan::factors_of(of_, p), DType::f32), p, to);
  Draft draft;
  record_.append(draft, of_.chain, result_type(0).shape, {Input::Kind::main, 0});
  record_.group_program(draft, group);
  for (size_t i = 0; i < of_.gives.size(); ++i) group.gives[i] = group_slot_of(of_.gives[i]);
  group.counter = record_.counter_of_slices();
}

// The places of what a product puts into a larger tensor.
void Describer::describe_put() {
  const Shape& to = result_type(0).shape;
  Dimensions map = dimensions_of(to);
  for (size_t i = 0; i < map.size(); ++i) map[i].size = of_.put->shape[static_cast<int>(i)];
  record_.put_result(0, plan::put_index(*of_.put, to, 0), record_.map(map));
}

// The tensor maps of a product whose operands a copy engine brings.
void Describer::describe_copies() {
  Matrix& to = node_.matrix;
  if (!plan_.device.copies_tensors) return;
  if (static_cast<Product>(to.product) == Product::ordered) {
    const Cut cut = std::exchange(to.cut, copied_cut(to, plan_.device.makes_code()));
    if (to.cut.patch != 0) maps_ = tensor_maps(plan_, of_, to);
    if (maps_.empty()) to.cut = cut;
  } else {
    // Where a tail wants the ring's memory, it is emptied behind each part; the other block would bring to it meanwhile.
    const plan::Pairing pairing = plan_.tilings[of_.tiles].pairing;
    const bool may = pairing != plan::Pairing::columns || to.tail_steps != Matrix::kNoTail;
    to.pairing = static_cast<uint8_t>(may ? pairing : plan::Pairing::none);
    to.transposed = plan_.tilings[of_.tiles].transposed ? 1 : 0;
    maps_ = tensor_maps(plan_, of_, to);
    if (maps_.empty()) to.pairing = to.transposed = 0;
  }
  if (of_.of_runs != plan::OfRuns::none) describe_runs();
  to.has_maps = maps_.empty() ? 0 : 1;
  to.operands_stay = is_immutable(0) && is_immutable(1) ? 1 : 0;
  scratch_ = node_.scratch_bytes = static_cast<int64_t>(maps_.size()) * kTensorMapBytes;
}

// Whether blocks meet before each tile (matrix_ring_90a.h): where each has one of a loop that does nothing else, whose trips
// wait for nothing, they drift apart.
bool Describer::is_met(const Node& node) const {
  const plan::Region& region = plan_.regions[of_.region];
  const bool is_alone = region.is_loop() && region.end_node - region.first_node == 1;
  if (!plan_.device.makes_code() || maps_.empty() || !is_alone) return false;
  const auto reads = [&](uint32_t result) {
    return std::ranges::any_of(of_.operands, [&](const plan::Operand& operand) {
      return operand.kind == plan::Operand::Kind::view &&
             plan_.view(operand.index).buffer == plan_.view(result).buffer;
    });
  };
  if (std::ranges::any_of(of_.results, reads) || of_.of_runs != plan::OfRuns::none) return false;
  std::set<uint32_t> processors;
  for (uint32_t t = 0; t < of_.tasks; ++t)
    processors.insert(plan_.tasks[of_.first_task + t].processor);
  const int64_t tiles = node.matrix.down * node.matrix.across;
  return of_.tasks == tiles && processors.size() == of_.tasks && tensor::gains_by_meeting(node);
}

// What runs begin of a product's tiles, or end. A tile that is not brought has all of its k.
void Describer::describe_runs() {
  if (maps_.empty()) record_.refusal = "the tiles of a product are cut into runs, and not brought";
  const plan::MatrixTiles& tiles = plan_.tilings[of_.tiles];
  InRuns& runs = node_.matrix.runs;
  runs.count = static_cast<uint16_t>(tiles.runs);
  runs.first_row = static_cast<uint16_t>(tiles.first / tiles.across);
  runs.part = static_cast<uint8_t>(of_.of_runs) & 0xF;
  runs.split = static_cast<uint8_t>(tiles.split);
  runs.segment = static_cast<uint8_t>(tiles.segment);
  runs.together = tiles.pairing == plan::Pairing::columns ? 2 : 1;
  if (of_.of_runs == plan::OfRuns::ended)
    runs.begun = static_cast<uint8_t>(
        record_.operand(of_.operands[of_.begun], type(of_.begun), {0, 0, Map::same}));
}

// A narrow or a shallow product, of which `cut` is that of any other of the dot order; false where the place of its operands,
// its tiles or its tail is none for it.
bool Describer::describe_few(const Cut& cut) {
  Matrix& to = node_.matrix;
  const auto aligned = [&](uint32_t operand, int64_t matrix) {
    return record_.offset(operand) % 16 == 0 && matrix % 4 == 0;
  };
  if (!aligned(0, to.a_matrix) || !aligned(1, to.b_matrix)) return false;
  if (static_cast<Product>(to.product) == Product::narrow) {
    if (to.across != 1) return false;
    to.narrow = narrow_cut_of(to);
    return to.narrow.parts != 0;
  }
  if (to.tile_columns % 4 != 0 || std::min(to.n, to.tile_columns) > kShallowColumns ||
      to.tile_rows > kShallowRows)
    return false;
  if (plan_.device.interprets) {  // which has it as a way through a part
    if (cut.patch == 0 || cut.plain == 0) return false;
    to.product = static_cast<uint8_t>(Product::ordered);
    to.cut = cut;
    to.cut.patch = matrix_f32::kShallowPatch;
    to.cut.row_bits = std::bit_width(kShallowRows - 1);
    to.cut.column_bits = std::bit_width(kShallowColumns - 1);
    return true;
  }
  if (to.tail_steps == Matrix::kNoTail) return false;
  for (size_t s = 0; s < to.tail_steps; ++s)
    if (to.tail[s].reads_operand() && record_.offset(to.tail[s].index) % 16 != 0) return false;
  return true;
}

void Describer::describe_matrix() {
  const plan::MatrixShape shape = plan::matrix_shape(of_);
  const plan::MatrixTiles& tiles = plan_.tilings[of_.tiles];
  const Shape& a = type(0).shape;
  const Shape& b = type(1).shape;
  const Shape& out = of_.main_type.shape;
  Matrix& to = node_.matrix;
  to.m = shape.m;
  to.n = shape.n;
  to.k = shape.k;
  to.tile_rows = tiles.rows;
  to.tile_columns = tiles.columns;
  to.down = tiles.down;
  to.across = tiles.across;
  const int64_t a_line = a[a.rank() - 1];
  const int64_t b_line = b[b.rank() - 1];
  // Of a single line it does not matter how far the next would be.
  to.a_row = !shape.ta ? a_line : a_line == 1 ? shape.whole_k : 1;
  to.a_k = shape.ta ? a_line : 1;
  to.b_column = shape.tb ? b_line : b_line == 1 ? shape.whole_k : 1;
  to.b_k = shape.tb ? 1 : b_line;
  to.a_matrix = a_line * a[a.rank() - 2];
  to.b_matrix = b_line * b[b.rank() - 2];
  if (of_.phases.empty())
    record_.begin_at(0, shape.first_k * to.a_k);
  else
    describe_phases();
  record_.begin_at(1, shape.first_k * to.b_k);
  const auto leading = [](const Shape& of) {
    return Shape(of.dims().first(static_cast<size_t>(of.rank() - 2)));
  };
  to.a_batch = record_.map(broadcast(leading(out), leading(a)));
  to.b_batch = record_.map(broadcast(leading(out), leading(b)));
  to.result_rows = record_.map({{shape.batches * shape.m, shape.n}});
  to.result_columns = record_.map({{shape.n, 1}});

  const DType element = type(0).dtype;
  const bool wide = size_of(element) == 8;
  const DType accumulator =
      isa::is_real(element) ? (wide ? DType::f64 : DType::f32) : (wide ? DType::i64 : DType::i32);
  node_.compute = static_cast<uint8_t>(accumulator);
  if (plan::is_group(of_)) return describe_group();
  if (element == DType::f32 && type(1).dtype == DType::f32) {
    // Buffers begin at multiples of 16 bytes; lines of a tile, where they are neighbours, and matrices must.
    const auto aligned = [](int64_t line, int64_t lines, int64_t matrix) {
      return (line != 1 || lines % 4 == 0) && matrix % 4 == 0;
    };
    to.cut = cut_of(to, {aligned(to.a_row, tiles.rows, to.a_matrix),
                         aligned(to.b_column, tiles.columns, to.b_matrix)});
  }
  Draft draft = product_draft(plan::factors_of(of_, 0), accumulator);
  record_.append(draft, of_.chain, result_type(0).shape, draft.result);
  record_.plain_tail(draft, result_type(0).dtype, shape.n, to.cut);
  programs({}, {draft}, accumulator);
  node_.fetch[0].narrow = node_.deliver[0].narrow;  // the form of what is staged
  // What has elements of 8 bytes behind it stays with the dot order.
  const bool narrow = node_.deliver[0].narrow != 0;
  const plan::Product product = narrow ? plan::product_of(plan_, of_) : plan::Product::ordered;
  to.product = static_cast<uint8_t>(product);
  to.part_columns = static_cast<uint16_t>(tiles.part_columns);
  if (product != plan::Product::ordered) {
    const Cut cut = std::exchange(to.cut, {});
    describe_tail(record_, draft, result_type(0).dtype, to);
    if (product == plan::Product::narrow || product == plan::Product::shallow) {
      if (describe_few(cut)) return;
      to.product = static_cast<uint8_t>(plan::Product::ordered);
      to.cut = cut;
    }
  } else if (!narrow) {
    return;
  }
  if (product == plan::Product::thin) {
    to.thin = {};
    to.thin.cut = thin_cut_of(
        to, {record_.offset(0), record_.offset(1), size_of(element), element == DType::f32,
             is_immutable(1), 1, plan_.fast && plan_.device.makes_code()});
    to.thin.cut.in_fours = in_fours();
    if (!of_.put) return;
    if (to.tail_steps == Matrix::kNoTail) std::abort();  // plan::take_updates lets no other through
    describe_put();
    return;
  }
  if (product == plan::Product::small) {
    // Lines of tiles, and k of their parts, begin at multiples of eight.
    const auto aligned = [&](uint32_t operand, int64_t pitch, int64_t matrix) {
      constexpr int64_t kPiece = 8;
      return record_.offset(operand) % 16 == 0 && pitch % kPiece == 0 && matrix % kPiece == 0;
    };
    to.small = small_cut_of(to, aligned(0, std::max(to.a_row, to.a_k), to.a_matrix),
                            aligned(1, std::max(to.b_column, to.b_k), to.b_matrix),
                            plan_.device.makes_code());
    return;
  }
  describe_copies();
}

}  // namespace trek::device
