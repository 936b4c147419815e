#include "hostlib/external_data.h"

#include <fmt/format.h>

#include "assembler/data/data.h"
#include "hostlib/digest.h"
#include "hostlib/names.h"

namespace trek {

isa::Result<std::vector<std::byte>> read_external(const isa::Module& module,
                                                  const isa::TensorDecl& decl,
                                                  const std::filesystem::path& folder) {
  const isa::External& external = module.externals[decl.external];
  const std::string& format = module.string(external.format);
  const std::filesystem::path path = folder / module.string(external.path);
  const auto tensor = static_cast<uint32_t>(&decl - module.tensors.data());
  if (!is_data_format(format))
    return problem(isa::ErrorCode::DataFormat,
                   fmt::format("{} refers to a file of unknown format '{}'",
                               tensor_text(module, tensor), format));
  isa::Result<DataArray> array =
      read_data(format, path, module.string(external.member), module.type(decl.type));
  if (!array) {
    isa::Problems problems = array.take_problems();
    for (isa::Problem& found : problems)
      if (decl.role == isa::Role::input && found.help.empty())
        found.help = fmt::format("it is the default of @{0}; --input {0}=FILE gives another",
                                 tensor_name(module, tensor));
    return problems;
  }
  const Digest found = digest_of_bytes(array->bytes);
  const Digest wanted{external.hash_low, external.hash_high};
  if (found != wanted)
    return problem(
        isa::ErrorCode::DataHash,
        fmt::format("{}: the data of {} has changed: its hash is {}, the module wants {}",
                    path.string(), tensor_text(module, tensor), found.text(), wanted.text()));
  return std::move(array->bytes);
}

}  // namespace trek
