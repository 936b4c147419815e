// Errors of libraries and devices as values: what was being done, what the library called the failure,
// and what it said about it. isa::Problem is about what a user wrote; this is about what a machine has.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace trek::driver {

struct Error {
  std::string doing;  // "loading module resident.cubin on device 0"
  std::string name;   // the library's name of it, "CUDA_ERROR_INVALID_PTX", or "" where it has none
  std::string detail;  // the library's words, a compiler's log, dlerror; may have several lines

  // "loading module resident.cubin on device 0: CUDA_ERROR_INVALID_PTX: a PTX JIT compilation failed"
  std::string text() const;
};

// A value, or the error that prevented it. Reading the other one of the two aborts.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() { return std::get<0>(state_); }
  const T& operator*() const { return std::get<0>(state_); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  T&& take() { return std::move(std::get<0>(state_)); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

// Done, or the error that prevented it.
struct Done {};
using Status = Result<Done>;

}  // namespace trek::driver
