# How device code is compiled by clang: without the CUDA SDK. The level follows as --cuda-gpu-arch.
set(TREK_DEVICE_FLAGS
    -x
    cuda
    --cuda-device-only
    --cuda-feature=+ptx80
    --cuda-path=/nonexistent
    -nocudainc
    -nocudalib)
