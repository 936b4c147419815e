// The matrix products that ours are judged by against cuBLAS's, in lists that are always the same.
#pragma once

#include <string>
#include <vector>

#include "emulator/driver/cublas.h"

namespace trek::bench {

// Those of the first readable kernel that reached cuBLAS by our route (squares, layers, few rows), the right operand
// transposed; then every layer of GPT-2 124M trained on 16 x 1024 tokens: forward, the gradient of its inputs (right
// operand transposed), the gradient of its weights (left operand transposed).
std::vector<driver::GemmShape> known_shapes();

// Thirty shapes whose dimensions are log-uniform over 1 to 16384 and whose form is one of the three above, drawn with
// a fixed seed: multiples of 8 in all three dimensions, or not in at least one.
std::vector<driver::GemmShape> random_shapes(bool multiples_of_8);

// "1024x768x3072 tb": rows x columns x depth, and which operands are transposed.
std::string text(const driver::GemmShape& shape);

}  // namespace trek::bench
