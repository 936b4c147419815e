#include "hostlib/run/trace.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "hostlib/names.h"
#include "hostlib/place.h"
#include "hostlib/values.h"

namespace trek::run {
namespace {

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

isa::Problems cannot_write(const std::filesystem::path& path, int error) {
  return {problem(isa::ErrorCode::OutputUnwritable,
                  fmt::format("cannot write '{}': {}", path.string(), std::strerror(error)))};
}

double microseconds(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

}  // namespace

isa::Problems TraceWriter::open(const std::filesystem::path& path) {
  target_ = path;
  written_.emplace(path);
  if (!written_->is_open()) return cannot_write(path, errno);
  // A stream of its own: closing it writes what it holds, and the file is named only after that.
  const int descriptor = ::fcntl(written_->descriptor(), F_DUPFD_CLOEXEC, 0);
  file_.reset(descriptor < 0 ? nullptr : ::fdopen(descriptor, "w"));
  if (file_ == nullptr) return cannot_write(path, errno);
  write("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  write(R"({"ph":"M","pid":1,"tid":1,"name":"process_name","args":{"name":"trek-run"}})");
  return {};
}

void TraceWriter::executed(Place place, uint64_t begin, uint64_t end) {
  now_ = end;
  if (!has_room()) return;
  write(fmt::format("{}\"ts\":{:.3f},\"dur\":{:.3f}}}", head(place), microseconds(begin),
                    microseconds(end - begin)));
}

void TraceWriter::emitted(const Emitted& value) {
  if (value.type.elements() != 1) return;  // a counter is one number
  const isa::DType dtype = value.type.dtype;
  const double number = element_number(dtype, element_bits(dtype, value.bytes, 0));
  if (!std::isfinite(number) || !has_room()) return;
  if (!has_instructions())
    now_ = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                     std::chrono::steady_clock::now() - began_)
                                     .count());
  write(fmt::format(
      ",\n{{\"ph\":\"C\",\"pid\":1,\"name\":{},\"ts\":{:.3f},\"args\":{{\"value\":{}}}}}",
      json_string(value.name), microseconds(now_), number));
}

isa::Problems TraceWriter::close() {
  write(fmt::format("\n],\"otherData\":{{\"events\":{},\"left_out\":{}}}}}\n", events_, left_out_));
  if (std::fclose(file_.release()) != 0 && error_ == 0) error_ = errno;
  if (error_ == 0 && !written_->commit()) error_ = errno;
  if (error_ == 0) return {};
  return cannot_write(target_, error_);
}

bool TraceWriter::has_room() {
  if (events_ < kMaxEvents) {
    ++events_;
    return true;
  }
  ++left_out_;
  return false;
}

void TraceWriter::write(const std::string& text) {
  if (error_ == 0 && std::fwrite(text.data(), 1, text.size(), file_.get()) != text.size())
    error_ = errno;
}

const std::string& TraceWriter::head(Place place) {
  std::string& head = heads_[uint64_t{place.function} << 32 | place.instruction];
  if (head.empty())
    head = fmt::format(
        R"(,{}{{"ph":"X","pid":1,"tid":1,"name":{},"cat":{},"args":{{"at":{},"text":{}}},)", "\n",
        json_string(isa::info(instruction_at(module_, place).opcode).mnemonic),
        json_string(function_text(module_, place)), json_string(location_text(module_, place)),
        json_string(written_text(module_, place)));
  return head;
}

}  // namespace trek::run
