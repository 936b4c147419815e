// What products by tensor cores may be cut into, and what their tasks take.
#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "emulator/plan/product_tasks.h"
#include "emulator/plan/runs.h"

namespace trek::plan {

namespace {

// A product by tensor cores is worked on in parts of 128 rows by 32, 64, 128, 192 or 256 columns, 32 only where the right
// operand's k are neighbours, and of f32 the left one's, too. A task has as many parts as leave every processor about as
// much to do as single parts would: fewer tasks cost less, and the copies of a task run on from part to part.
//
// Where code is made for each product, parts of 16 bits may have any number of columns that is a multiple of 16, up to
// 320, and be transposed: of 128 columns by so many rows. So a product of few tiles can have as many as there are
// processors. Those of f32 may be transposed where the right operand's lines are neighbours, which then need not be turned
// around: they come to registers. The code for widths and forms that is not wanted is never made.
//
// What a processor with 2048 multipliers for 16 bits, or half as many for f32, takes: for each width of a part a step
// of 128 bytes of k, where both operands have neighbouring k and where both have neighbouring lines. Those of 16 bits are
// from an H200: the wide parts come near the multipliers' rate, narrow ones wait for shared memory and for copies. Of f32
// neighbouring lines are turned around in shared memory, which takes so much of its time for each line of the operand.
struct Width {
  int64_t columns;
  double by_line;
  double by_k;
};
constexpr std::array<Width, 9> kMadeWidths = {{{320, 1680, 1640},
                                               {256, 1050, 1080},
                                               {192, 910, 900},
                                               {128, 780, 990},
                                               {96, 530, 650},
                                               {80, 480, 780},
                                               {64, 285, 900},
                                               {48, 420, 770},
                                               {32, 325, 700}}};
constexpr std::array<Width, 5> kInterpretedWidths = {
    {{256, 1060, 1110}, {192, 850, 1000}, {128, 600, 920}, {64, 400, 700}, {32, 400, 700}}};
// Of f32, whose lines that are neighbours are counted by Costs::turn.
constexpr std::array<Width, 5> kMadeF32Widths = {
    {{256, 1290, 0}, {192, 1000, 0}, {128, 720, 0}, {64, 400, 0}, {32, 400, 0}}};
// And all else that code which is made for one product of 16 bits takes otherwise than a kernel that interprets, or f32.
struct Costs {
  std::span<const Width> widths;
  // Of f32, cycles of a step: what it takes to turn lines around, and each of them; and what products that are under way
  // hide of that, for each column beyond kLeastHiding. Where an operand comes to registers none are.
  double turn = 0;
  double turn_line = 0;
  double hidden = 0;
  // What a step takes more, as a share, where all rows of a part are ones that there are not.
  double in_vain = 0;
  double task;     // what begins and ends a task
  double results;  // of a column of a part
  double narrow;   // more of it where parts stand above each other, whose lines are short
  // Of a line of memory, by what it begins at a multiple of: 64 bytes, 32, or 16: see below.
  double halves_of_64;
  double halves_of_32;
  double halves_of_16;
  double halves_at_once;
  // Bytes of lines that all processors work on at a time come so many a cycle, some from device memory; and how much of that
  // is not hidden.
  double streamed;
  double seen;
  // Of a pair that brings columns together: what a step of operands with neighbouring k takes of the time that it takes
  // alone, cycles that a tile begins later, and of a line that the other one brings.
  double together;
  double later;
  double received;
  // Of a pair by depth: what a step of operands with neighbouring lines takes (768x2304x16384), and to exchange sums.
  double halves;
  double halves_by_line;  // and of both with neighbouring k (208x6968x2688 in parts of 256)
  double exchange;
  // Of a tile that a run begins or ends: to put its sums to memory, a column, and to add them there, those of one run; and
  // each run that is added (768x768x16384, 1032x744x11440).
  double begun = 0;
  double added = 0;
  double added_run = 0;
  // And of what a run takes, where its tiles share lines with others that are at other k, and no pair brings them.
  double apart = 1;
};
// By 290 ways through 17 products, each alone in a program (README.md).
constexpr Costs kMade = {
    .widths = kMadeWidths,
    .in_vain = 0.13,
    .task = 2000,
    .results = 8.2,
    .narrow = 0.06,
    .halves_of_64 = 1.7,
    .halves_of_32 = 2.33,
    .halves_of_16 = 3.4,
    .halves_at_once = 103,
    .streamed = 3800,
    .seen = 0.1,
    .together = 0.86,
    .later = 800,
    .received = 3.8,
    .halves = 1.15,
    .halves_by_line = 1.2,
    .exchange = 1850,
    .begun = 14,
    .added = 20,
    .added_run = 1900,
    .apart = 1.22,
};
constexpr Costs kInterpreted = {
    .widths = kInterpretedWidths,
    .turn_line = 2,
    .task = 3500,
    .results = 6,
    .narrow = 0,
    .halves_of_64 = 1.75,
    .halves_of_32 = 2.8,
    .halves_of_16 = 3.6,
    .halves_at_once = 90,
    .streamed = 2400,
    .seen = 0.125,
    .together = 0.93,
    .later = 500,
    .received = 2.1,
    .halves = 1.25,
    .halves_by_line = 1,
    .exchange = 3500,
};
// By 70 ways through five products.
constexpr Costs kMadeF32 = [] {
  Costs costs = kInterpreted;
  costs.widths = kMadeF32Widths;
  costs.turn = 190;
  costs.turn_line = 2.65;
  costs.hidden = 2.55;
  return costs;
}();
// Whether code is made for a product in parts of any width; and whether one operand may come to registers.
bool makes_parts(const Device& device, const ProductWork& work) {
  return is_made(device) && work.element != isa::DType::f32;
}
bool may_use_registers(const Device& device, const ProductWork& work) {
  return is_made(device) && work.element == isa::DType::f32 && !work.shape.tb;
}
const Costs& costs_of(const Device& device, const ProductWork& work) {
  if (!is_made(device)) return kInterpreted;
  return makes_parts(device, work) ? kMade : kMadeF32;
}

constexpr int64_t kLeastHiding =
    60;  // columns of a part whose products hide none of what turning takes
constexpr int64_t kLeastTogether = 128;  // columns of a part that a pair brings together
// Of a width between two of these, what lies between.
Width width_of(const Costs& costs, int64_t columns) {
  const auto below = std::ranges::find_if(
      costs.widths, [&](const Width& each) { return each.columns <= columns; });
  if (below->columns == columns) return *below;
  const Width& above = *(below - 1);
  const double share = static_cast<double>(columns - below->columns) /
                       static_cast<double>(above.columns - below->columns);
  const auto between = [&](double Width::* of) {
    return (*below).*of + share * (above.*of - (*below).*of);
  };
  return {columns, between(&Width::by_line), between(&Width::by_k)};
}
// What it takes to copy a step: 30 cycles, and for each line of an operand as long as its processor receives it, or as long
// as the second-level cache gives lines to all processors, which reads halves of its own lines: of a line at a multiple of
// 64 bytes two, else three, which cost more still where they are no multiple of 32. So what counts is how many processors
// bring lines at a time, and how many of these another one brings. In cycles, and lines of one cycle each; from an H200, by
// products of which nothing is multiplied: 4128x744x6280 on 132 processors takes 1180 a step in parts of 192 in pairs, 1660
// alone; 1032x744x11440 on 108 in pairs by depth of 128 830; 10056x128x4568 on 79 in pairs 720.
constexpr double kCopyStep = 30;
double halves_of(const Costs& costs, int64_t line_bytes) {
  if (line_bytes % 64 == 0) return costs.halves_of_64;
  return line_bytes % 32 == 0 ? costs.halves_of_32 : costs.halves_of_16;
}
// What wide parts lose of which fewer than four slots have room (device/ring.h).
constexpr int64_t kWide = 256;
constexpr double kFewSlots = 1.22;
constexpr double kInVain = 1.25;  // and others that bring lines which they do not multiply
constexpr int64_t kStepBytes = 128;
constexpr double kTranspose = 600;        // the results of a part
constexpr int64_t kLeastPaired = 64;      // columns of a part whose k two processors share,
constexpr int64_t kPairedStep = 32;       // and what these are a multiple of
constexpr int64_t kLeastPairedSteps = 4;  // of k

// Places of k of a step.
int64_t step_depth(const ProductWork& work) { return kStepBytes / isa::byte_size(work.element); }

// Columns that a part may have: some that all devices have code for, and where code is made for each product, those that
// divide up its columns with the least behind the last.
constexpr std::array<int64_t, 5> kFixedWidths = {256, 192, 128, 64, 32};
constexpr int64_t kWidthStep = 16;
constexpr int64_t kLeastMade = 48;
constexpr int64_t kMostMade = 320;
std::vector<int64_t> made_widths(int64_t n) {
  std::vector<int64_t> widths;
  for (int64_t columns = kMostMade; columns >= kLeastMade; columns -= kWidthStep) {
    const int64_t least = parts_of(n, parts_of(n, columns));
    const bool is_fixed = std::ranges::find(kFixedWidths, columns) != kFixedWidths.end();
    if (!is_fixed && parts_of(least, kWidthStep) * kWidthStep == columns) widths.push_back(columns);
  }
  return widths;
}

// Pairs of tiles of which each is half of a part: a processor then has half of the steps, and of each step half of what it
// would bring for two parts.
void add_pairs_of_depth(std::vector<MatrixTiles>& found, const Device& device,
                        const ProductWork& work, int64_t columns) {
  if (!device.has_pairs || parts_of(work.shape.k, step_depth(work)) < kLeastPairedSteps) return;
  if (columns < kLeastPaired || columns % kPairedStep != 0) return;
  MatrixTiles tiles = tiles_of(work.shape, kPartRows, columns / 2);
  tiles.part_columns = columns;
  tiles.pairing = Pairing::depth;
  const int64_t most = std::max(most_tasks(device), work.shape.batches);
  if (tiles.across % 2 == 0 && tiles.count <= most) found.push_back(tiles);
}

// Whether pairs of tiles above each other may bring columns together.
bool may_share_columns(const Device& device, const ProductWork& work, const MatrixTiles& tiles) {
  return device.has_pairs && tiles.down >= 2 && tiles.part_columns >= kLeastTogether &&
         work.shape.n >= tiles.part_columns;
}

// Adds the same tiles in such pairs.
void add_pairs_of_columns(std::vector<MatrixTiles>& found, MatrixTiles tiles, const Device& device,
                          const ProductWork& work) {
  if (!may_share_columns(device, work, tiles)) return;
  tiles.pairing = Pairing::columns;
  add_splits(found, tiles, device, work);
}

// Adds the same tiles with their k cut into runs, one for each processor, where they are parts and no great number; and
// in pairs that bring columns together.
void add_runs(std::vector<MatrixTiles>& found, MatrixTiles tiles, const Device& device,
              const ProductWork& work) {
  constexpr int64_t kMostTurns = 4;
  const bool are_parts = tiles.rows == kPartRows && tiles.columns == tiles.part_columns;
  if (!work.may_run || !makes_parts(device, work) || !are_parts) return;
  tiles.runs = device.processors;
  if (tiles.count > kMostTurns * tiles.runs) return;
  if (may_have_runs(work.shape, tiles)) found.push_back(tiles);
  if (!may_share_columns(device, work, tiles)) return;
  tiles.pairing = Pairing::columns;
  if (may_have_runs(work.shape, tiles)) found.push_back(tiles);
}

void add_tiles(std::vector<MatrixTiles>& found, const Device& device, const ProductWork& work,
               const MatrixTiles& tiles) {
  add_splits(found, tiles, device, work);
  add_pairs_of_columns(found, tiles, device, work);
  add_runs(found, tiles, device, work);
}

void add_fixed(std::vector<MatrixTiles>& found, const Device& device, const ProductWork& work) {
  const MatrixShape& shape = work.shape;
  const int64_t most = std::max(most_tasks(device), shape.batches);
  const bool is_f32 = work.element == isa::DType::f32;
  for (const int64_t width : kFixedWidths) {
    if (width == 32 && (!shape.tb || (is_f32 && shape.ta))) continue;
    const int64_t parts_down = parts_of(shape.m, kPartRows);
    const int64_t parts_across = parts_of(shape.n, width);
    const int64_t parts = parts_down * parts_across * shape.batches;
    for (const int64_t down : parts_of_task(parts_down))
      for (const int64_t across : parts_of_task(parts_across)) {
        MatrixTiles tiles = tiles_of(shape, down * kPartRows, across * width);
        tiles.part_columns = width;
        const bool leaves_half_idle = 2 * tiles.count < std::min(parts, work.share);
        if (leaves_half_idle || tiles.count > most) continue;
        add_tiles(found, device, work, tiles);
      }
  }
  for (const int64_t width : kFixedWidths) add_pairs_of_depth(found, device, work, width);
}

// A part each, of other widths than the fixed ones; of transposed ones those, too.
void add_made(std::vector<MatrixTiles>& found, const Device& device, const ProductWork& work,
              bool transposed) {
  const int64_t most = std::max(most_tasks(device), work.shape.batches);
  std::vector<int64_t> widths = made_widths(work.shape.n);
  if (transposed) widths.insert(widths.end(), kFixedWidths.begin(), kFixedWidths.end() - 1);
  for (const int64_t width : widths) {
    MatrixTiles tiles = tiles_of(work.shape, kPartRows, width);
    tiles.part_columns = width;
    if (tiles.count <= most) add_tiles(found, device, work, tiles);
    // Pairs may have parts that are a little wider.
    const int64_t paired = parts_of(width, kPairedStep) * kPairedStep;
    const bool is_there = paired != width && (std::ranges::count(kFixedWidths, paired) != 0 ||
                                              std::ranges::count(widths, paired) != 0);
    if (!is_there) add_pairs_of_depth(found, device, work, paired);
  }
}

ProductWork transposed(ProductWork work) {
  std::swap(work.shape.m, work.shape.n);
  work.shape.ta = !std::exchange(work.shape.tb, !work.shape.ta);
  return work;
}
MatrixTiles transposed(MatrixTiles tiles) {
  std::swap(tiles.rows, tiles.columns);
  std::swap(tiles.down, tiles.across);
  tiles.transposed = !tiles.transposed;
  return tiles;
}

}  // namespace

std::vector<MatrixTiles> tensor_candidates(const Device& device, const ProductWork& work) {
  const MatrixShape& shape = work.shape;
  const int64_t most = std::max(most_tasks(device), shape.batches);
  std::vector<MatrixTiles> found;
  add_fixed(found, device, work);
  if (makes_parts(device, work)) add_made(found, device, work, false);
  const size_t upright = found.size();
  if (makes_parts(device, work)) add_made(found, device, transposed(work), true);
  if (may_use_registers(device, work)) add_fixed(found, device, transposed(work));
  for (size_t i = upright; i < found.size(); ++i) found[i] = transposed(found[i]);
  // A product beyond all of these: one task for each matrix of the batch, or as few as will do.
  for (int64_t size = 2 * kPartRows; found.empty(); size *= 2) {
    MatrixTiles tiles = tiles_of(shape, size, size);
    tiles.part_columns = kPartRows;
    if (tiles.down * tiles.across <= 1 || tiles.count <= most) found.push_back(tiles);
  }
  return found;
}

namespace {

// Lines of both operands that processors work on at a time: tasks are dealt row by row, part by part.
double lines_of(const ProductWork& work, const MatrixTiles& tiles) {
  const int64_t parts = std::clamp<int64_t>(work.share / tiles.count, 1, tiles.split);
  const int64_t columns = std::min(tiles.across, work.share);
  const int64_t rows = std::min(tiles.down, parts_of(work.share, tiles.across));
  // Both halves of a part bring all of its lines, at k of their own.
  const int64_t halves = tiles.pairing == Pairing::depth ? 2 : 1;
  const int64_t lines = tiles.transposed ? halves * columns * kPartRows + rows * tiles.part_columns
                                         : columns * tiles.part_columns + halves * rows * kPartRows;
  return static_cast<double>(parts * lines);
}

// Rows of parts that there are not, as a share of all.
double rows_in_vain(const MatrixShape& shape) {
  return 1 - static_cast<double>(shape.m) /
                 static_cast<double>(parts_of(shape.m, kPartRows) * kPartRows);
}

// A task whose parts stand upright, where processors work on so many lines at a time.
double task_upright(const Device& device, const ProductWork& work, const MatrixTiles& tiles,
                    int64_t at_once, double lines, bool to_registers) {
  const bool is_f32 = work.element == isa::DType::f32;
  const Costs& costs = costs_of(device, work);
  const Width width = width_of(costs, tiles.part_columns);
  const double by_k = (work.shape.ta ? 0.5 : 0) + (work.shape.tb ? 0 : 0.5);  // of both operands
  const auto turned = static_cast<double>((work.shape.ta && !to_registers ? kPartRows : 0) +
                                          (work.shape.tb ? 0 : tiles.part_columns));
  const double hidden =
      to_registers ? 0 : costs.hidden * static_cast<double>(tiles.part_columns - kLeastHiding);
  const double turns =
      turned == 0 ? 0 : std::max(0.0, costs.turn + turned * costs.turn_line - hidden);
  const double product = (width.by_line + (is_f32 ? turns : by_k * (width.by_k - width.by_line))) *
                         (1 + costs.in_vain * rows_in_vain(work.shape));
  // Lines of memory, which may have been padded.
  const auto halves = [&](int64_t line) {
    return halves_of(costs, parts_of(line * isa::byte_size(work.element), 16) * 16);
  };
  const bool together = tiles.pairing == Pairing::columns;
  const auto left_lines =
      static_cast<double>(work.shape.ta ? kPartRows : std::min(kPartRows, work.shape.m));
  // Of lines that are neighbours 128 bytes at a time.
  const int64_t brought = work.shape.tb
                              ? tiles.part_columns
                              : parts_of(tiles.part_columns, step_depth(work)) * step_depth(work);
  const double right_lines = static_cast<double>(brought) / (together ? 2 : 1);
  const double read = left_lines * halves(work.shape.ta ? work.shape.m : work.shape.whole_k) +
                      right_lines * halves(work.shape.tb ? work.shape.whole_k : work.shape.n);
  const double received = read + (together ? right_lines * costs.received : 0);
  const double copies =
      (kCopyStep + std::max(received, static_cast<double>(at_once) * read / costs.halves_at_once)) *
      (brought > kWide                 ? kFewSlots
       : brought != tiles.part_columns ? kInVain
                                       : 1);
  const bool by_depth = tiles.pairing == Pairing::depth;
  const double in_pairs = together && by_k == 0   ? costs.together
                          : by_depth && by_k == 1 ? costs.halves
                          : by_depth && by_k == 0 ? costs.halves_by_line
                                                  : 1;
  const double step = std::max(product * in_pairs, copies);
  const int64_t all_steps = parts_of(depth_of(work, tiles), step_depth(work));
  const auto steps = static_cast<double>(by_depth ? parts_of(all_steps, 2) : all_steps);
  const int64_t down = parts_of(std::min(tiles.rows, work.shape.m), kPartRows);
  const int64_t across = parts_of(std::min(tiles.columns, work.shape.n), tiles.part_columns);
  const auto parts = static_cast<double>(down * across);
  const double memory = lines * static_cast<double>(kStepBytes) / costs.streamed;
  const int64_t given = std::min(tiles.part_columns, tiles.columns);
  const double part = steps * (std::max(step, memory) + memory * costs.seen) +
                      costs.results * static_cast<double>(given) *
                          (1 + costs.narrow / static_cast<double>(across)) +
                      (by_depth ? costs.exchange : 0);
  return parts * part + costs.task + (together ? costs.later : 0);
}

double task_tensor(const Device& device, const ProductWork& work, const MatrixTiles& tiles,
                   int64_t at_once) {
  const double lines = lines_of(work, tiles);
  if (!tiles.transposed) return task_upright(device, work, tiles, at_once, lines, false);
  const bool is_f32 = work.element == isa::DType::f32;
  return task_upright(device, transposed(work), transposed(tiles), at_once, lines, is_f32) +
         (is_f32 ? 0 : kTranspose);
}

// The longest run, which has the results of the most tiles, and sums that it begins, and adds the most.
double run_tensor(const Device& device, const ProductWork& work, const MatrixTiles& tiles) {
  const Costs& costs = costs_of(device, work);
  const Runs runs(work.shape, tiles);
  ProductWork one = work;
  one.shape.k = runs.longest() * kRunStep;
  const bool is_apart = tiles.pairing == Pairing::none && tiles.down > 1 && tiles.across > 1;
  const double run = task_tensor(device, one, tiles, tiles.runs) * (is_apart ? costs.apart : 1);
  one.shape.k = 0;
  const double of_task = task_tensor(device, one, tiles, tiles.runs);
  const auto begun = static_cast<double>(runs.most_begun());
  const auto ended = static_cast<double>(runs.most_ended());
  return run + (ended - 1) * of_task + costs.task +
         static_cast<double>(tiles.part_columns) * (costs.begun + begun * costs.added) +
         begun * costs.added_run;
}

}  // namespace

double turns_tensor(const Device& device, const ProductWork& work, const MatrixTiles& tiles,
                    int64_t share) {
  if (tiles.runs > 0) return run_tensor(device, work, tiles);
  const int64_t tasks = tiles.count * tiles.split;
  if (!makes_parts(device, work))
    return static_cast<double>(parts_of(tasks, share)) *
           task_tensor(device, work, tiles, std::min(tasks, work.share));
  // Fewer tasks in the last turn are sooner done.
  const auto whole = static_cast<double>(tasks / share);
  return (whole == 0 ? 0 : whole * task_tensor(device, work, tiles, share)) +
         (tasks % share == 0 ? 0 : task_tensor(device, work, tiles, tasks % share));
}
Join join_tensor(const Device& device) {
  return is_made(device) ? Join{.node = 3250, .round = 800, .element = 0.002} : kJoin;
}

// ---- without a copy engine ----------------------------------------------------------------------

// The block brings its operands itself, and only what exists of a part of 128 rows by 128 columns. Narrow parts
// share out a small product, in which most of a step is waiting.
constexpr int64_t kLeastPart = 32;

std::vector<MatrixTiles> brought_candidates(const Device& device, const ProductWork& work) {
  const MatrixShape& shape = work.shape;
  const int64_t most = std::max(most_tasks(device), shape.batches);
  std::vector<MatrixTiles> found;
  for (int64_t rows = kLeastPart; rows < 2 * std::max(shape.m, kLeastPart); rows *= 2)
    for (int64_t columns = kLeastPart; columns < 2 * std::max(shape.n, kLeastPart); columns *= 2) {
      MatrixTiles tiles = tiles_of(shape, rows, columns);
      tiles.part_columns = kPartRows;
      if (tiles.count <= most) add_splits(found, tiles, device, work);
    }
  return found;
}

// A task, and a step of 128 bytes of k: its syncs and products, and what brings 32 rows of a panel (matrix_tensor.h).
// From an H200, where a step of one or two turns of 32 rows for each operand took 2 600 to 4 100 cycles.
constexpr double kBroughtTask = 10000;
constexpr double kBroughtStep = 800;
constexpr double kBroughtRows = 850;

double task_brought(const ProductWork& work, const MatrixTiles& tiles) {
  const int64_t of_row = step_depth(work);  // elements of a panel's row
  const auto rows_of = [&](bool by_line, int64_t lines) {
    const int64_t there = std::min(lines, kPartRows);
    return static_cast<double>(by_line ? parts_of(there, 32)
                                       : parts_of(there, of_row) * of_row / 32);
  };
  const MatrixShape& shape = work.shape;
  const int64_t rows = std::min(tiles.rows, shape.m);
  const int64_t columns = std::min(tiles.columns, shape.n);
  const auto steps = static_cast<double>(parts_of(depth_of(work, tiles), step_depth(work)));
  const auto parts =
      static_cast<double>(parts_of(tiles.rows, kPartRows) * parts_of(tiles.columns, kPartRows));
  const double step =
      kBroughtStep + kBroughtRows * (rows_of(!shape.ta, rows) + rows_of(shape.tb, columns)) +
      static_cast<double>(std::min(rows, kPartRows) * std::min(columns, kPartRows)) / 32;
  return parts * steps * step + kBroughtTask;
}

}  // namespace trek::plan
