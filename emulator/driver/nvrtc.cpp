#include "emulator/driver/nvrtc.h"

#include <vector>

#include <fmt/format.h>

#include "emulator/driver/library.h"

namespace trek::driver {

// The functions used. Result 0 is success.
struct NvrtcApi {
  using Program = void*;
  int (*version)(int* major, int* minor) = nullptr;
  const char* (*error_words)(int result) = nullptr;
  int (*create)(Program* program, const char* source, const char* name, int headers,
                const char* const* texts, const char* const* names) = nullptr;
  int (*destroy)(Program* program) = nullptr;
  int (*compile)(Program program, int count, const char* const* options) = nullptr;
  int (*log_size)(Program program, size_t* bytes) = nullptr;
  int (*log)(Program program, char* text) = nullptr;
  int (*ptx_size)(Program program, size_t* bytes) = nullptr;
  int (*ptx)(Program program, char* text) = nullptr;
  int (*cubin_size)(Program program, size_t* bytes) = nullptr;
  int (*cubin)(Program program, char* image) = nullptr;
};

namespace {

// Reads a text or image whose size must be asked for first.
std::string read(void* program, int (*size)(void*, size_t*), int (*get)(void*, char*)) {
  size_t bytes = 0;
  if (size(program, &bytes) != 0 || bytes == 0) return "";
  std::string text(bytes, '\0');
  if (get(program, text.data()) != 0) return "";
  return text;
}

std::string trimmed(std::string text) {
  text.resize(text.find_last_not_of(std::string_view("\0\n ", 3)) + 1);
  return text;
}

}  // namespace

Result<Nvrtc> Nvrtc::load() {
  const std::string sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};
  Result<SharedLibrary> library = SharedLibrary::open("TREK_NVRTC_LIBRARY", toolkit_files(sonames));
  if (!library) return library.error();
  auto api = std::make_shared<NvrtcApi>();
  const bool complete = library->find("nvrtcVersion", api->version) &&
                        library->find("nvrtcGetErrorString", api->error_words) &&
                        library->find("nvrtcCreateProgram", api->create) &&
                        library->find("nvrtcDestroyProgram", api->destroy) &&
                        library->find("nvrtcCompileProgram", api->compile) &&
                        library->find("nvrtcGetProgramLogSize", api->log_size) &&
                        library->find("nvrtcGetProgramLog", api->log) &&
                        library->find("nvrtcGetPTXSize", api->ptx_size) &&
                        library->find("nvrtcGetPTX", api->ptx) &&
                        library->find("nvrtcGetCUBINSize", api->cubin_size) &&
                        library->find("nvrtcGetCUBIN", api->cubin);
  if (!complete) return Error{library->file() + " is not an NVRTC of CUDA 12 or newer", "", ""};
  Nvrtc nvrtc;
  nvrtc.file_ = library->file();
  int major = 0;
  int minor = 0;
  api->version(&major, &minor);
  nvrtc.version_ = fmt::format("{}.{}", major, minor);
  nvrtc.api_ = std::move(api);
  return nvrtc;
}

Result<NvrtcCode> Nvrtc::compile(const std::string& name, const std::string& source,
                                 const std::string& architecture, NvrtcOutput output,
                                 std::span<const std::string> options) const {
  std::vector<std::string> all(options.begin(), options.end());
  all.push_back("--gpu-architecture=" + architecture);
  std::vector<const char*> words;
  words.reserve(all.size());
  for (const std::string& option : all) words.push_back(option.c_str());

  NvrtcApi::Program program = nullptr;
  int result = api_->create(&program, source.c_str(), name.c_str(), 0, nullptr, nullptr);
  if (result == 0) result = api_->compile(program, static_cast<int>(words.size()), words.data());
  NvrtcCode code;
  if (program != nullptr) code.log = trimmed(read(program, api_->log_size, api_->log));
  if (result == 0) {
    code.image = output == NvrtcOutput::ptx ? read(program, api_->ptx_size, api_->ptx)
                                            : read(program, api_->cubin_size, api_->cubin);
  }
  if (output == NvrtcOutput::ptx) code.image = trimmed(std::move(code.image));
  if (program != nullptr) api_->destroy(&program);
  const std::string doing = fmt::format("compiling {} for {}", name, architecture);
  if (result != 0) {
    return Error{doing, api_->error_words(result), code.log.empty() ? "" : "\n" + code.log};
  }
  if (code.image.empty()) {
    return Error{doing, "", "no code came out; a cubin wants sm_NN, PTX compute_NN or sm_NN"};
  }
  return code;
}

}  // namespace trek::driver
