// The two nodes of a product whose tiles' k are cut into runs (runs.h).
#pragma once

#include "emulator/plan/product.h"

namespace trek::plan {

// Elements of a run's line: the outputs of a tile, and of an ordered product of several segments both sums of each.
int64_t line_of_run(const ProductWork& work, const MatrixTiles& tiles);
// The same of a node of runs; and of one that ends tiles the buffer of the lines.
int64_t line_of_run(const Plan& plan, const Node& node);
uint32_t begun_buffer(const Plan& plan, const Node& node);
// Of a node that ends tiles: whether it wants what was begun of them behind its own products alone.
bool adds_late(const Plan& plan, const Node& node);
// Whether a task reads what a box has behind its late waits alone: what was begun of its tile.
bool is_read_late(const Plan& plan, const Task& task, const Box& box);

}  // namespace trek::plan
