// Of the ways in which a product is worked on, the parts that stand in files of their own: candidates, and what one of
// their tasks takes, in cycles. For product.cpp, which puts them together.
#pragma once

#include "emulator/plan/product.h"

namespace trek::plan {

inline int64_t parts_of(int64_t size, int64_t part) { return (size + part - 1) / part; }

// Bytes from device memory a cycle, all processors together.
inline constexpr double kMemory = 2400;

// Tasks that a node may have.
int64_t most_tasks(const Device& device);
MatrixTiles tiles_of(const MatrixShape& shape, int64_t rows, int64_t columns);
// Parts of a task in one direction, of so many that there are: as many as leave the last task of a row no fewer than need
// be, about these.
std::vector<int64_t> parts_of_task(int64_t there);
// Adds the tiles for numbers of nodes that k may be divided between: all up to kFew, then some.
void add_splits(std::vector<MatrixTiles>& found, MatrixTiles tiles, const Device& device,
                const ProductWork& work);
// The most k of a part: by blocks parts differ by one, and the first may have less than others.
int64_t depth_of(const ProductWork& work, const MatrixTiles& tiles);

// By tensor cores: of operands that a copy engine brings, and of others (product_tensor.cpp).
std::vector<MatrixTiles> tensor_candidates(const Device& device, const ProductWork& work);
// All of them, on so many processors.
double turns_tensor(const Device& device, const ProductWork& work, const MatrixTiles& tiles,
                    int64_t share);
// Whether code is made for a product whose operands a copy engine brings.
inline bool is_made(const Device& device) { return device.copies_tensors && !device.interprets; }
// What it takes to add sums of parts of k, in cycles: a node that does, each 1024 elements of a processor, and for all
// processors together each element of a part.
struct Join {
  double node;
  double round;
  double element;
};
inline constexpr Join kJoin = {5500, 1200, 0.008};
double join_of(const ProductWork& work, const MatrixTiles& tiles, const Join& join);
// Nodes that add so many parts: six at once, of which one is the sum of those before.
inline int64_t join_nodes(int64_t split) { return parts_of(split - 1, 5); }
Join join_tensor(const Device& device);
std::vector<MatrixTiles> brought_candidates(const Device& device, const ProductWork& work);
double task_brought(const ProductWork& work, const MatrixTiles& tiles);

// Small ones (product_small.cpp): candidates, a task, and what it takes to add parts.
std::vector<MatrixTiles> small_candidates(const Device& device, const ProductWork& work);
double task_small(const Device& device, const ProductWork& work, const MatrixTiles& tiles);
double join_small(const Device& device, const ProductWork& work, const MatrixTiles& tiles);

// Of a few columns and of a few k (product_few.cpp): which are such products, of no more rows than tiles may have.
bool is_narrow(const Device& device, const MatrixShape& shape);
bool is_shallow(const Device& device, const MatrixShape& shape);
std::vector<MatrixTiles> narrow_candidates(const Device& device, const ProductWork& work);
std::vector<MatrixTiles> shallow_candidates(const Device& device, const ProductWork& work);
double task_narrow(const ProductWork& work, const MatrixTiles& tiles);
double task_shallow(const ProductWork& work, const MatrixTiles& tiles);

}  // namespace trek::plan
