# Device code: CUDA C++ that clang-19 compiles at build time, without the CUDA SDK, to PTX text that a
# program carries.
#
#   trek_add_ptx(TARGET kernels.cu [HEADERS file...])
#
# gives TARGET the header <generated/kernels.ptx.inc>, the PTX as bytes for an array initialiser. Without
# clang++-19 the header holds a single 0, so that the same sources build and say at run time that this
# build has no device code; configuring says so too. PTX 8.0 for sm_80 runs on anything from Ampere and
# driver 525 on.
include_guard(GLOBAL)

find_program(TREK_DEVICE_CLANG clang++-19)
mark_as_advanced(TREK_DEVICE_CLANG)
if(NOT TREK_DEVICE_CLANG)
  message(STATUS "clang++-19 is not installed: building without device code")
endif()

function(trek_add_ptx TARGET SOURCE)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "" "" "HEADERS")
  cmake_path(GET SOURCE STEM name)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/generated)
  set(embed ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/embed.cmake)
  # Contraction off and correctly rounded operations: the strict numerics hold on the device too.
  set(flags
      -x
      cuda
      --cuda-device-only
      --cuda-gpu-arch=sm_80
      --cuda-feature=+ptx80
      --cuda-path=/nonexistent
      -nocudainc
      -nocudalib
      -std=c++20
      -O3
      -ffp-contract=off
      -fno-math-errno
      -Wall
      -Wextra
      -Werror
      -I${PROJECT_SOURCE_DIR})
  set(header ${folder}/${name}.ptx.inc)
  file(MAKE_DIRECTORY ${folder})
  if(TREK_DEVICE_CLANG)
    set(ptx ${folder}/${name}.ptx)
    add_custom_command(
      OUTPUT ${header} ${ptx}
      COMMAND ${TREK_DEVICE_CLANG} ${flags} -S -o ${ptx} -MD -MF ${ptx}.d -MT ${header}
              ${CMAKE_CURRENT_SOURCE_DIR}/${SOURCE}
      COMMAND ${CMAKE_COMMAND} -DINPUT=${ptx} -DOUTPUT=${header} -P ${embed}
      DEPENDS ${SOURCE} ${ARG_HEADERS} ${embed}
      DEPFILE ${ptx}.d
      COMMENT "Compiling ${SOURCE} to PTX"
      VERBATIM)
  else()
    file(WRITE ${header} "0\n")
  endif()
  target_sources(${TARGET} PRIVATE ${header})
  target_include_directories(${TARGET} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()
