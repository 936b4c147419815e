#include "emulator/device/probe.h"

namespace trek::device {
namespace {

constexpr unsigned char kFullPtx[] = {
#include <generated/kernel_probe.ptx.inc>
};
constexpr unsigned char kCorePtx[] = {
#include <generated/kernel_probe_core.ptx.inc>
};

}  // namespace

std::string_view probe_ptx() {
  return {reinterpret_cast<const char*>(kFullPtx), sizeof(kFullPtx) - 1};
}
std::string_view probe_core_ptx() {
  return {reinterpret_cast<const char*>(kCorePtx), sizeof(kCorePtx) - 1};
}

}  // namespace trek::device
