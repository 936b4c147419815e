#include "emulator/driver/cublas.h"

#include <fmt/format.h>

#include "emulator/driver/library.h"

namespace trek::driver {

// The functions used, with the numbers of the public interface. Status 0 is success.
struct CublasApi {
  int (*create)(void** handle) = nullptr;
  int (*destroy)(void* handle) = nullptr;
  int (*get_version)(void* handle, int* version) = nullptr;
  int (*set_stream)(void* handle, CuStream stream) = nullptr;
  int (*set_workspace)(void* handle, CuDevicePointer workspace, size_t bytes) = nullptr;
  const char* (*status_name)(int status) = nullptr;
  const char* (*status_words)(int status) = nullptr;
  int (*gemm_ex)(void* handle, int op_a, int op_b, int m, int n, int k, const void* alpha,
                 CuDevicePointer a, int type_a, int lda, CuDevicePointer b, int type_b, int ldb,
                 const void* beta, CuDevicePointer c, int type_c, int ldc, int compute,
                 int algorithm) = nullptr;
};

namespace {

constexpr uint64_t kWorkspaceBytes = uint64_t{32} << 20;  // what cuBLAS advises for Hopper
constexpr int kNotTransposed = 0;
constexpr int kTransposed = 1;
constexpr int kDefaultAlgorithm = -1;

struct TypeNumbers {
  std::string_view name;
  uint64_t bytes;
  int data;     // cudaDataType
  int compute;  // cublasComputeType_t
};

TypeNumbers numbers(GemmType type) {
  switch (type) {
    case GemmType::f32:
      return {"f32", 4, 0, 68};
    case GemmType::tf32:
      return {"tf32", 4, 0, 77};
    case GemmType::bf16:
      return {"bf16", 2, 14, 68};
    case GemmType::f16:
      break;
  }
  return {"f16", 2, 2, 68};
}

}  // namespace

std::string_view name(GemmType type) { return numbers(type).name; }
uint64_t element_bytes(GemmType type) { return numbers(type).bytes; }

Result<Cublas> Cublas::create(const Context& context, const Stream& stream) {
  const std::string sonames[] = {"libcublas.so.13", "libcublas.so.12"};
  Result<SharedLibrary> library =
      SharedLibrary::open("TREK_CUBLAS_LIBRARY", toolkit_files(sonames));
  if (!library) return library.error();
  auto api = std::make_shared<CublasApi>();
  const bool complete = library->find("cublasCreate_v2", api->create) &&
                        library->find("cublasDestroy_v2", api->destroy) &&
                        library->find("cublasGetVersion_v2", api->get_version) &&
                        library->find("cublasSetStream_v2", api->set_stream) &&
                        library->find("cublasSetWorkspace_v2", api->set_workspace) &&
                        library->find("cublasGetStatusName", api->status_name) &&
                        library->find("cublasGetStatusString", api->status_words) &&
                        library->find("cublasGemmEx", api->gemm_ex);
  if (!complete) return Error{library->file() + " is not a cuBLAS of CUDA 12 or newer", "", ""};

  Cublas cublas;
  cublas.file_ = library->file();
  cublas.api_ = std::move(api);
  Result<DeviceBuffer> workspace = DeviceBuffer::allocate(context, kWorkspaceBytes);
  if (!workspace) return workspace.error();
  cublas.workspace_ = workspace.take();
  int status = cublas.api_->create(&cublas.handle_);
  if (status == 0) status = cublas.api_->get_version(cublas.handle_, &cublas.version_);
  if (status == 0) status = cublas.api_->set_stream(cublas.handle_, stream.handle());
  if (status == 0) {
    status =
        cublas.api_->set_workspace(cublas.handle_, cublas.workspace_.address(), kWorkspaceBytes);
  }
  const Status created = cublas.check(status, "creating a handle of " + cublas.file_);
  if (!created) return created.error();
  return cublas;
}

Cublas::Cublas(Cublas&& other) noexcept
    : api_(std::move(other.api_)),
      handle_(std::exchange(other.handle_, nullptr)),
      workspace_(std::move(other.workspace_)),
      file_(std::move(other.file_)),
      version_(other.version_) {}

Cublas& Cublas::operator=(Cublas&& other) noexcept {
  std::swap(api_, other.api_);
  std::swap(handle_, other.handle_);
  std::swap(workspace_, other.workspace_);
  std::swap(file_, other.file_);
  std::swap(version_, other.version_);
  return *this;
}

Cublas::~Cublas() {
  if (handle_ != nullptr) api_->destroy(handle_);
}

std::string Cublas::version() const {
  return fmt::format("{}.{}.{}", version_ / 10000, version_ / 100 % 100, version_ % 100);
}

Status Cublas::check(int status, std::string doing) const {
  if (status == 0) return Done{};
  return Error{std::move(doing), api_->status_name(status), api_->status_words(status)};
}

Status Cublas::gemm(GemmType type, const GemmShape& shape, CuDevicePointer a, CuDevicePointer b,
                    CuDevicePointer c) const {
  // Row-major C[m,n] is column-major C'[n,m] = B' A'.
  const TypeNumbers t = numbers(type);
  const float one = 1;
  const float zero = 0;
  const int op_b = shape.b_transposed ? kTransposed : kNotTransposed;
  const int op_a = shape.a_transposed ? kTransposed : kNotTransposed;
  const int ldb = shape.b_transposed ? shape.k : shape.n;
  const int lda = shape.a_transposed ? shape.m : shape.k;
  const int status =
      api_->gemm_ex(handle_, op_b, op_a, shape.n, shape.m, shape.k, &one, b, t.data, ldb, a, t.data,
                    lda, &zero, c, t.data, shape.n, t.compute, kDefaultAlgorithm);
  if (status == 0) return Done{};
  return check(status, fmt::format("{} matrix product {}x{}x{} by cuBLAS", t.name, shape.m, shape.n,
                                   shape.k));
}

}  // namespace trek::driver
