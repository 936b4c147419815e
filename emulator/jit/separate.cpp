#include "emulator/jit/separate.h"

#include <cstring>

#include "emulator/device/node.h"

namespace trek::jit {
namespace {

using device::Node;

class Separator {
 public:
  explicit Separator(std::span<const std::byte> record) {
    made_.record.assign(record.begin(), record.end());
    node_ = read<Node>(0);
  }

  Separated run() {
    for (uint32_t i = 0; i < node_.all_operands; ++i) each(operand(node_.operands_at, i));
    for (uint32_t i = 0; i < node_.results; ++i) each(operand(node_.results_at, i));
    for (uint32_t i = 0; i < node_.scalars; ++i) {
      const size_t at = node_.scalars_at + i * sizeof(device::Scalar);
      const auto scalar = read<device::Scalar>(at);
      if (scalar.kind == device::Scalar::memory) take(at + offsetof(device::Scalar, value));
      if (scalar.kind == device::Scalar::constant && is_random()) list(at, scalar);
    }
    if (node_.scratch_bytes > 0) take(offsetof(Node, scratch));
    if (node_.areas_at != 0)
      for (const size_t where : {offsetof(device::Areas, result), offsetof(device::Areas, left),
                                 offsetof(device::Areas, beside), offsetof(device::Areas, packed)})
        if (read<int64_t>(node_.areas_at + where) != device::Areas::kNone)
          take(node_.areas_at + where);
    if (static_cast<device::Kind>(node_.kind) == device::Kind::matrix &&
        static_cast<device::Product>(node_.matrix.product) == device::Product::ordered)
      for (size_t i = 0; i < node_.matrix.cut.tails; ++i)
        if (node_.matrix.cut.tail[i].beside == device::CutTail::operand)
          take(offsetof(Node, matrix) + offsetof(device::Matrix, cut) +
               offsetof(device::Cut, tail) + i * sizeof(device::CutTail) +
               offsetof(device::CutTail, offset));
    return std::move(made_);
  }

 private:
  template <typename T>
  T read(size_t at) const {
    T value{};
    std::memcpy(&value, made_.record.data() + at, sizeof value);
    return value;
  }
  static size_t operand(uint32_t table, uint32_t i) { return table + i * sizeof(device::Operand); }
  // What is absent, or a scalar in a register, lies nowhere.
  void each(size_t at) { take(at + offsetof(device::Operand, offset)); }
  void take(size_t at) {
    const auto offset = read<int64_t>(at);
    const auto place =
        static_cast<int64_t>(made_.addresses.size() << 8) | Separated::behind(offset);
    made_.addresses.push_back(static_cast<uint32_t>(Separated::index_of(offset)));
    std::memcpy(made_.record.data() + at, &place, sizeof place);
  }

  bool is_random() const {
    const auto kind = static_cast<device::Kind>(node_.kind);
    return kind == device::Kind::random || kind == device::Kind::dropout;
  }
  void list(size_t at, device::Scalar scalar) {
    const auto value = static_cast<uint64_t>(scalar.value);
    scalar.kind = device::Scalar::listed;
    scalar.value = static_cast<int64_t>(made_.addresses.size());
    made_.addresses.push_back(static_cast<uint32_t>(value));
    made_.addresses.push_back(static_cast<uint32_t>(value >> 32));
    std::memcpy(made_.record.data() + at, &scalar, sizeof scalar);
  }

  Separated made_;
  Node node_{};
};

}  // namespace

Separated separated(std::span<const std::byte> record) { return Separator(record).run(); }

}  // namespace trek::jit
