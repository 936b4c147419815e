// What products that are not ordered want in their descriptors. Host only.
#pragma once

#include <vector>

#include "emulator/device/describe.h"
#include "emulator/device/record.h"

namespace trek::device {

// The deliver program as steps for registers, where it is such a one: Matrix::tail and tail_steps.
void describe_tail(const Record& record, const Draft& draft, isa::DType result, Matrix& to);

// The tail of one of several thin products, which has nothing but what plan::group_products allows.
void describe_group_tail(const Record& record, const Draft& draft, size_t product, Matrix& to);
// Where a result of such a node is kept.
uint8_t group_slot_of(const plan::MicroStep::Input& given);

// The tensor maps of both operands of a `tensor` product, of which `of` has been filled; none where an
// operand does not lie as the copy engine wants it.
std::vector<TensorMap> tensor_maps(const plan::Plan& plan, const plan::Node& node,
                                   const Matrix& of);

}  // namespace trek::device
