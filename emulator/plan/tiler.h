// The making of tiles: what tile.cpp, tile_lines.cpp and tile_matrix.cpp share.
#pragma once

#include "emulator/plan/geometry.h"
#include "emulator/plan/plan.h"

namespace trek::plan {

class Runs;

class Tiler {
 public:
  explicit Tiler(Plan& plan) : plan_(plan), pieces_(plan.buffers.size(), 0) {}
  void run();

 private:
  void elements(Node& node);
  void boxes(Node& node, BoxSize boxes);
  void steps(Node& node);
  void lines(Node& node);
  void scattered_lines(Node& node, const Lines& lines, int64_t size);
  void rows(Node& node);
  void read_rows(const Node& node, const std::vector<MicroStep>& last, int64_t first,
                 int64_t count);
  void scatter(Node& node);
  void update(Node& node);
  void loss(Node& node);
  void matrix(Node& node);
  void whole(Node& node);
  // Begins a task; add() gives it boxes.
  void start(const Node& node, int64_t first, int64_t count);
  Box in_all_trips(const Slice& slice, const Box& part) const;
  void add(Operand operand, const Box& part, bool write, bool partial);
  void read_scalars(const Node& node);
  void read_program(const Node& node, const std::vector<MicroStep>& program,
                    const isa::Shape& shape, const Box& like);
  void read_programs(const Node& node, const Box& like_main, const isa::Type& main,
                     const Box& like_result);
  int64_t matrix_of(const isa::Type& type, const MatrixShape& shape, int64_t batch) const;
  void matrix_operand(Operand operand, const isa::Type& type, const MatrixShape& shape,
                      int64_t batch, int64_t row, int64_t rows, int64_t column, int64_t columns);
  void factor(const Node& node, size_t which, const MatrixShape& shape, const MatrixTile& tile,
              Depth depth);
  void begun_tiles(Node& node);
  void tile_of_matrix(Node& node, const MatrixShape& shape, const Runs* runs, int64_t i);
  int64_t chunk(int64_t elements, int64_t processors) const;
  int64_t chunk(int64_t elements) const { return chunk(elements, plan_.device.processors); }
  int64_t processors_of_step(const Node& node) const;
  int64_t share_of_lines(int64_t lines, int64_t n, int64_t size, int64_t at_once) const;
  int64_t piece(const Node& node, int64_t elements) const;
  void note_pieces(const Node& node);

  Plan& plan_;
  uint32_t index_ = 0;  // of the node being cut
  // Of a buffer whose last writer was cut by the matrices of a batch, the elements of each; else 0.
  std::vector<int64_t> pieces_;
};

// Neighbouring lines that lie side by side are cut into no fewer than these, to be read together.
inline constexpr int64_t kColumns = 32;

// Boxes are first in elements of the view, from its start; add() makes them bytes of the arena.
inline Box range(int64_t first, int64_t count) {
  return {first, count, 1, 0, 0, false, false, false};
}
inline Box rectangle(int64_t first, int64_t row, int64_t rows, int64_t stride) {
  return {first, row, rows, stride, 0, false, false, false};
}
inline Box all_of(const isa::Type& type) { return range(0, type.elements()); }
// What a tile reads of an operand that is broadcast to `shape`.
Box broadcast_part(const isa::Type& type, const isa::Shape& shape, const Box& part);

}  // namespace trek::plan
