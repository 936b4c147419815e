// The plan: a linked module. What a device executes, what the profiler and the report speak of, and
// what a person can print.
//
// A module says what is computed; a plan says by which tasks, in which memory, and who waits for whom:
//   - Nodes are instructions after inlining and fusion, in program order. A node's work is cut into
//     tasks, one tile each.
//   - Regions are the module's control flow: bodies of loops, branches. They nest, and cover nodes (and
//     so tasks) in contiguous ranges.
//   - Every task belongs to a processor's queue: its tasks in program order. Processor 0 is the control
//     processor: it has the scalar instructions, the decisions, and what must happen in program order
//     (emit, next). It also has tiles like any other, but comes last when they are dealt.
//   - Between processors there are counters. A counter is raised by each of its producers, all of one
//     region, and is never reset: a wait is for
//         count * (epoch of the producers' region - delta)
//     where an epoch counts the trips that began since the launch; delta is 1 where the wait is for the
//     trip before. A region that was not entered has not counted, so a wait on it asks nothing new.
//   - Buffers are placed in one arena. Two buffers may have the same bytes at different times; the
//     dependencies keep their accesses apart like any others.
// link() makes a plan, check_plan() proves one, interpret() executes one on a CPU.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isa/module.h"

namespace trek::plan {

inline constexpr uint32_t kNone = UINT32_MAX;

// What the linker must know of a device.
struct Device {
  std::string name = "generic";
  std::string
      code;  // what executes its tasks, as far as their times depend on it; "" of none in particular
  int processors = 132;                        // queues
  int64_t shared_bytes = int64_t{227} * 1024;  // of one processor
  int64_t matrix_rows = 64;                    // a tile of a matrix product
  int64_t matrix_columns = 64;
  int64_t chunk = 1024;  // elements of a pointwise tile, or a few times as many
  // Tiles grow until a node has no more of them than this times processors: those of elements and lines, which take as
  // long as their first load for nothing, and all others.
  int tiles_per_processor = 2;
  int tasks_per_processor = 8;
  int64_t memory_bytes = int64_t{1} << 40;
  bool packs_panels = false;    // a task of a product packs panels for itself, so tiles are large
  bool copies_tensors = false;  // has a copy engine for tensors, and products of 64 rows beside it
  bool interprets = false;      // looks up the steps of programs as it executes them
  // Processors 2i and 2i + 1 reach each other's memory, and may work on two tiles of a product together (Pairing). Then there
  // are an even number of them.
  bool has_pairs = false;
  // Its tasks may see that a vector is there by what it says itself, in place of a counter (resident/tags.h): the plan is
  // the same. Of products, and of moves.
  bool has_tags = false;
  bool has_tagged_moves = false;
  // Whether it has a kernel for chains of small products (resident/README.md): again the plan is the same.
  bool has_chains = false;
  // Whether code is made for its nodes, which is no computer's.
  bool makes_code() const { return !interprets && !packs_panels; }
};

// Devices by name, [0] the generic one; nullptr where there is none of that name.
std::span<const Device> known_devices();
const Device* find_device(std::string_view name);

// The tile kernel that executes a task.
enum class Unit : uint8_t { matrix, vector, reduce, move, order, random, optimizer, control };
std::string_view name(Unit unit);

// How a node's work is cut; Task::first and Task::count are in these terms.
enum class Tiling : uint8_t {
  elements,  // of the result, row-major; of `update` those of y
  // Pairs of an outer and an inner index around the axis that is reduced, ordered or scattered along, in
  // row-major order (see Lines); of a loss, rows: its result 0 is then by row, whatever it says.
  lines,
  matrix,  // tiles of rows × columns, batch by batch: see Task
  boxes,  // of matrices that are turned around, in the result, matrix by matrix (box_at()); of a step of an optimizer that
          // makes its gradient, in the weights: see Task
  whole,  // one task
};

enum class BufferKind : uint8_t { tensor, param, tensor_register, scalar_register };

struct Buffer {
  BufferKind kind = BufferKind::tensor;
  std::string name;     // "@w1", "%h", "$lr"
  uint32_t source = 0;  // index into Module::tensors or Module::params
  int64_t bytes = 0;
  int64_t offset = 0;        // in the arena
  bool immutable = false;    // nothing in the plan writes it: may be fetched before any wait
  bool initialised = false;  // has its bytes before the launch
  // The nodes, in program order, from the first to the last that needs it (both included).
  uint32_t first = 0;
  uint32_t last = 0;
};

// Some elements of a buffer, one behind the other, from `first` + `step` x the counter of a loop, `region`, on (slices.h). The
// loop's trips are known; in none of them are these outside of the buffer, or some of another trip.
struct Slice {
  uint32_t region = kNone;  // kNone: `step` is 0
  int64_t first = 0;
  int64_t step = 0;
  bool operator==(const Slice&) const = default;
};

// A typed reading of a whole buffer, of which a reshape is another one; or of a slice.
struct View {
  uint32_t buffer = 0;
  isa::Type type;
  std::optional<Slice> slice;
};

struct Operand {
  enum class Kind : uint8_t {
    none,
    view,      // Plan::views
    counter,   // the counter of a loop: a region of the plan
    constant,  // Plan::constants
    number,    // the index itself: a flag, a choice, an element type, an opcode
    text,      // Plan::texts
  };
  Kind kind = Kind::none;
  uint32_t index = 0;
  explicit operator bool() const { return kind != Kind::none; }
  bool operator==(const Operand&) const = default;
};

// One attribute of the instruction's row: absent (no items), one value, or a list.
struct Attribute {
  bool given = false;
  std::vector<Operand> items;
};

// One pointwise step of a fused node. Each step rounds to its result type, so fusing changes no bit.
struct MicroStep {
  enum class From : uint8_t {
    none,
    operand,
    step,
    main,    // what the node's own instruction gave
    number,  // of a row node: what an earlier phase gave for the row
    kept,    // the element that an earlier phase has kept
  };
  struct Input {
    From from = From::none;
    // Of Node::operands, of an earlier step of the same program, of Node::phases; of a node with several products, of
    // these.
    uint32_t index = 0;
    bool operator==(const Input&) const = default;
  };
  isa::Opcode opcode{};
  isa::DType from = isa::DType::none;  // what the row's T stands for
  isa::DType to = isa::DType::none;    // the element type of the result
  std::array<Input, 3> inputs;
  std::array<Input, 2> attributes;  // its numbers, in the order of the row; none: the default
};

// Whether it may; of reals no step does.
bool may_trap(const MicroStep& step);

// Another product of a node that has several with one left operand (group_products.h).
struct OtherProduct {
  uint32_t right = 0;     // of Node::operands
  uint32_t bias = kNone;  // the same
  std::vector<Attribute> attributes;
  isa::Type main_type;
};

// Where a product's result is put: it is a patch of this shape, from this place of the result's tensor on
// (take_updates.h).
struct Put {
  isa::Shape shape;
  std::vector<int64_t> at;
};

// The k of a matrix product that a node sums: all of them where count is 0, else a part (split_products.h).
struct Depth {
  int64_t first = 0;
  int64_t count = 0;
};

// Of ordered ones (isa/semantics/dot.h): k of a segment.
inline constexpr int64_t kOrderedSegment = 4096;

// The rows of a matrix product that a node gives, or of its parts that it adds: all of them where count is 0, else some,
// which begin with a tile and end with one (split_products.h).
struct Rows {
  int64_t first = 0;
  int64_t count = 0;
};

// How processors 2j and 2j + 1 work together on two tiles of a product. Each has all that it reads of the other's operands
// among its own, and could do without the other.
enum class Pairing : uint8_t {
  none,
  depth,  // tiles 2i and 2i + 1 of a row are halves of one part: each processor sums half of the k for both, and they
          // exchange what they have of each other's
  columns,  // of tiles above each other, in rows 2i and 2i + 1: each brings half of the columns that both multiply. The last
            // of an odd number of rows is alone
};
std::string_view name(Pairing pairing);  // of `none` it is empty

// The tiles of a matrix product.
struct MatrixTiles {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t part_columns = 0;  // of a product that is not ordered: see product.h
  int64_t split = 1;         // nodes that its k is divided between
  Pairing pairing = Pairing::none;
  // Parts are of so many rows by 128 columns, and what is said of a pair's columns holds for its rows.
  bool transposed = false;
  // That the k of all tiles are cut into (runs.h); 0: a task has all k of its tile.
  int64_t runs = 0;
  int64_t segment = 0;  // in runs: which of the nodes that its k is divided between has them
  // What follows from these: count_tiles(), take_rows().
  int64_t down = 0;
  int64_t across = 0;
  int64_t first = 0;  // the number of the node's first tile among all of the product
  int64_t count = 0;  // that it has
  bool operator==(const MatrixTiles&) const = default;
};

// What a node is of a product whose tiles' k are cut into runs (runs.h).
enum class OfRuns : uint8_t {
  none,   // it is of no such product
  begun,  // it sums what runs have of tiles that they do not end; a task is a run's: Task::first
  ended,  // it sums the rest of each tile, adds what was begun of it, and gives it; a task is a tile's
};

// What a loss that makes its logits gives besides, as result 2: its gradient times the weights, turned around.
enum class Back : uint8_t {
  none,
  plain,
  relu_grad,  // through `relu.grad`, beside the rows of which the logits are made
};

// A phase of a row node. Rows are lines along the last axis of a shape, of at most kRowElements; a row goes through all
// phases in order, and then through the node's chain. What a phase gives for a row is a number, or elements.
struct Phase {
  enum class Kind : uint8_t {
    reduction,  // of what `elements` gives; its result goes through `tail`, over rows
    numbers,    // `tail` alone
    keep,       // what `elements` gives stays, because later phases read it more than once
  };
  Kind kind = Kind::reduction;
  isa::Opcode opcode{};                 // of a reduction: Sum, Mean, Prod, Norm2, Max, Min
  isa::DType dtype = isa::DType::none;  // of the elements, to which a reduction rounds
  std::vector<MicroStep> elements;      // over the rows' elements
  std::vector<MicroStep> tail;          // may be empty
  isa::Type type;                       // of the numbers, one for each row
  uint32_t result = kNone;              // of Node::results, where other nodes read the numbers
};
inline constexpr int64_t kRowElements = 8192;
inline constexpr size_t kMaxPhases = 6;
inline constexpr size_t kMaxKept = 1;       // phases that keep elements
inline constexpr size_t kMaxRowValues = 8;  // of a program: operands and values of steps at once

inline constexpr int64_t kMostParts = 5;  // of a gradient, that an optimizer adds to it

struct Node {
  isa::Opcode opcode{};  // its own instruction; of a purely pointwise node the last of its chain
  Unit unit = Unit::control;
  Tiling tiling = Tiling::whole;
  uint32_t region = 0;
  uint32_t function = 0;  // where it stands in the module
  uint32_t instruction = 0;
  uint32_t site = kNone;  // the call that brought it here, if one did
  // Its own, then what the programs read besides; of an optimizer parts of the gradient that are added to it, in order. Its
  // gradient may also be one of blocks, the outermost axis, which it adds in ascending order.
  std::vector<Operand> operands;
  std::vector<isa::Type> operand_types;
  uint32_t own_operands = 0;
  std::vector<Attribute> attributes;
  std::vector<uint32_t> results;    // views
  isa::Type main_type;              // of its own first result, before the tail
  std::vector<MicroStep> prologue;  // gives the elements of operand 0, which is then none
  std::vector<MicroStep> chain;     // a pointwise node's work; of others the tail
  std::vector<OtherProduct> others;
  std::vector<MicroStep::Input> gives;  // of a node with a group of products: what each result is
  // Of a row node, which has no operands of its own, and whose rows are those of main_type. Its chain, if it has one,
  // gives the elements of result 0. Of a product what the rows of its left operand go through, before the prologue
  // (left_rows.h).
  std::vector<Phase> phases;
  uint32_t first_task = 0;
  uint32_t tasks = 0;
  uint32_t decides = kNone;  // the region whose trips this control node decides
  uint32_t level = 0;        // see share.h
  uint32_t share = 0;        // processors that its tiles are for
  uint32_t tiles = kNone;    // of a matrix product: Plan::tilings
  uint32_t product = kNone;  // and the product that it is of: Plan::products
  Depth depth;               // and the k that it sums
  Rows rows;                 // and the rows that it gives
  OfRuns of_runs = OfRuns::none;
  uint32_t begun = kNone;  // where tiles are ended: the operand that has what was begun of them
  // Where what a node would read is made by its own tasks, and is none of its operands then: what it is made from begins with
  // this one. Of an optimizer its gradient: [k, m], turned around, times [k, n], or of a bias the sum of the lines of the one
  // operand, [k, n] (take_gradients.h). Of a loss its logits: [rows, k] times [k, classes], and a bias of the classes, if there is
  // one (take_logits.h).
  uint32_t factors = kNone;
  Back back = Back::none;
  std::optional<Put> put;  // and where in result 0 its elements are, if not as they lie
  uint32_t weight = 0;     // dynamic instructions of the module that it stands for: see Region
  // A bit for each of the first operands, if it has come before the task's waits on all trips of a loop but the first: all that
  // writes it in the loop is done when the task before on the processor has begun, or stands before it there (depend.h).
  uint32_t standing = 0;
  bool stands(size_t operand) const { return operand < 32 && (standing >> operand & 1) != 0; }
  bool pointwise() const { return unit == Unit::vector; }
  bool by_rows() const { return !phases.empty() && unit != Unit::matrix; }
  bool makes_gradient() const { return factors != kNone && unit == Unit::optimizer; }
  bool steps_boxes() const { return makes_gradient() && tiling == Tiling::boxes; }
  bool makes_logits() const { return factors != kNone && unit == Unit::reduce; }
  // Steps of all its programs, for one element.
  size_t steps() const;
};

// A matrix product that was given tiles: as one node, before its k was divided, with the share that they are for.
struct ChosenProduct {
  Node node;
  bool is_whole = false;  // its k might have been divided between nodes, or cut into runs
  bool measured = false;  // the tiles are as measured.h has them, not as the cost model would
};

// Bytes of the arena that a task reads or writes: rows of row_bytes, stride apart.
struct Box {
  int64_t begin = 0;
  int64_t row_bytes = 0;
  int64_t rows = 1;
  int64_t stride = 0;
  uint32_t buffer = 0;
  bool write = false;
  bool partial = false;    // a write that may leave some of these bytes as they are
  bool immutable = false;  // may be fetched before the waits
  int64_t end() const { return begin + (rows - 1) * stride + row_bytes; }
  bool empty() const { return row_bytes == 0 || rows == 0; }
};

struct Wait {
  uint32_t counter = 0;
  uint32_t count = 0;       // how often the counter is raised in one trip
  uint8_t delta = 0;        // 1: of the trip before
  bool first_trip = false;  // the producers precede the innermost loop: poll on its first trip only
  // The task may wait behind a part of its work, of which nothing reads what the producers gave: see OfRuns. So it, and
  // what comes behind it, knows of them nothing else.
  bool late = false;
};

struct Counter {
  uint32_t region = 0;     // of its producers
  uint32_t producers = 0;  // tasks that raise it, once each in a trip
};

// One tile. Of matrix and boxes, tiles are numbered first by batch, then by row, then by column, and
// [first, first + count) is the tile's number and 1.
struct Task {
  int64_t first = 0;
  int64_t count = 0;
  uint32_t node = 0;
  uint32_t region = 0;
  uint32_t processor = 0;  // Plan::control() is the control processor
  uint32_t first_wait = 0;
  uint32_t first_signal = 0;
  uint32_t first_box = 0;
  uint16_t waits = 0;
  uint16_t signals = 0;
  uint16_t boxes = 0;
};
static_assert(sizeof(Task) <= 64, "a task and its inline waits are to fit a record of 128 bytes");

enum class RegionKind : uint8_t {
  root,
  loop,    // trips counted by its decision, or static
  repeat,  // the body of a `while` up to its `test`, which is its last node
  rest,    // the body after the test, entered while it holds; where it fails, the repeat ends
  then,
  otherwise,
};
std::string_view name(RegionKind kind);

struct Region {
  RegionKind kind = RegionKind::root;
  // A loop whose bounds and step are constants: every processor knows its trips, nobody decides.
  bool static_trips = false;
  uint32_t parent = kNone;
  uint32_t decision = kNone;  // the node that decides: loop, test, if; else none
  uint32_t first_node = 0;    // nodes [first_node, end_node), inner regions included
  uint32_t end_node = 0;
  uint32_t first_task = 0;
  uint32_t end_task = 0;
  int depth = 0;
  // Of a loop with static trips: the counter of trip t is from + step * t, modulo 2^64.
  int64_t from = 0;
  int64_t step = 0;
  uint64_t trips = 0;
  // Dynamic instructions, counted as the reference counts them: a region counts `instructions` each time
  // that it is entered, a loop each time that a trip begins. These are the weights of its own nodes, and
  // `weight` of what has no node (yield, call, return, a loop with static trips, views); those of inner
  // regions are their own.
  uint32_t weight = 0;
  uint64_t instructions = 0;
  bool is_loop() const { return kind == RegionKind::loop || kind == RegionKind::repeat; }
};

// A call that was inlined: where it stood, and the call around it.
struct CallSite {
  uint32_t function = 0;
  uint32_t instruction = 0;
  uint32_t parent = kNone;
};

// What was fused, and what not and why: one line each.
struct FusionNote {
  bool fused = false;
  std::string text;
};

struct Plan {
  Device device;
  bool fast = false;  // numerics: instructions may differ from the ISA's bits within its bounds
  std::vector<isa::Constant> constants;
  std::vector<std::string> texts;
  std::vector<CallSite> sites;
  std::vector<Buffer> buffers;
  std::vector<View> views;
  std::vector<Region> regions;  // [0] is the root; a parent precedes its children
  std::vector<Node> nodes;
  std::vector<MatrixTiles> tilings;
  std::vector<ChosenProduct> products;
  std::vector<Task> tasks;  // in program order; a queue is its processor's tasks in this order
  std::vector<Box> boxes;
  std::vector<Wait> waits;
  std::vector<uint32_t> signals;  // counters
  std::vector<Counter> counters;
  std::vector<FusionNote> fusion;
  int64_t fixed_bytes = 0;  // module tensors, params and scalars, from the arena's start
  int64_t arena_bytes = 0;
  int64_t peak_bytes = 0;   // of tensor registers as placed
  int64_t lower_bound = 0;  // the most bytes of tensor registers alive at once

  uint32_t control() const { return 0; }
  std::span<const Box> boxes_of(const Task& t) const {
    return {boxes.data() + t.first_box, t.boxes};
  }
  std::span<const Wait> waits_of(const Task& t) const {
    return {waits.data() + t.first_wait, t.waits};
  }
  std::span<const uint32_t> signals_of(const Task& t) const {
    return {signals.data() + t.first_signal, t.signals};
  }
  const View& view(uint32_t index) const { return views[index]; }
  // Whether region `outer` is `inner` or encloses it.
  bool encloses(uint32_t outer, uint32_t inner) const;
  // The innermost loop around both regions, or kNone.
  uint32_t common_loop(uint32_t a, uint32_t b) const;
};

// Whether two boxes share a byte; true where it cannot be told cheaply.
bool overlap(const Box& a, const Box& b);
// Whether `outer` certainly has every byte of `inner`.
bool covers(const Box& outer, const Box& inner);

}  // namespace trek::plan
