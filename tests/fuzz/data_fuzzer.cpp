// Any bytes are data of a format or refused with a problem; what is read has the bytes that its type
// says. The first byte picks the reader.
#include <array>
#include <string_view>

#include "assembler/data/data.h"
#include "tests/fuzz/invariant.h"

namespace {

using trek::fuzz::must_hold;
using trek::isa::DType;
using trek::isa::Type;

void check(const trek::isa::Result<trek::DataArray>& result) {
  if (!result.ok()) {
    must_hold(!result.problems()[0].message.empty(), "a problem without words");
    return;
  }
  const auto elements = result->shape.checked_elements();
  must_hold(elements.has_value(), "a shape beyond the limits");
  const auto size =
      static_cast<uint64_t>(*elements) * static_cast<uint64_t>(trek::isa::byte_size(result->dtype));
  must_hold(result->bytes.size() == size, "bytes that do not fill the shape");
}

// A type to ask for: element type and rank from one byte, small dimensions.
Type wanted(uint8_t choice) {
  const auto dtype = static_cast<DType>(1 + choice % (trek::isa::kDTypeCount - 1));
  trek::isa::Shape shape;
  for (int axis = 0; axis < choice / 64; ++axis) shape.push_back(2 + axis);
  return Type::tensor(dtype, shape);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const uint8_t reader = data[0];
  const Type type = wanted(data[1]);
  const auto bytes = std::as_bytes(std::span(data + 2, size - 2));
  constexpr std::array<std::string_view, 4> kFormats{"npy", "idx", "raw", "safetensors"};
  switch (reader % 8) {
    case 0:
      check(trek::parse_npy(bytes, "fuzz"));
      break;
    case 1:
      check(trek::parse_idx(bytes, "fuzz"));
      break;
    case 2:
      check(trek::parse_safetensors(bytes, "fuzz", "a"));
      break;
    case 3:
      if (const auto names = trek::parse_safetensors_names(bytes, "fuzz"); names.ok())
        for (const std::string& name : *names) check(trek::parse_safetensors(bytes, "fuzz", name));
      break;
    default:
      check(trek::parse_data(kFormats[reader % 4], bytes, "fuzz", "a", type));
      break;
  }
  return 0;
}
