// The core build of kernel_probe.cu.
#define TREK_DEVICE_CORE
#include "emulator/device/kernel_probe.cu"
