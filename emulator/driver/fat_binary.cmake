# Device code: CUDA C++ that clang-19 compiles at build time, without the CUDA SDK, and that a program
# carries as a fat binary (fat_binary.h): PTX, and cubins where ptxas is installed.
#
#   trek_add_fat_binary(TARGET kernels.cu [NAME name] [DEFINITIONS d...] [CUBINS sm_80 sm_90 sm_90a...]
#                       [LEVELS sm_90a] [MAX_SPILL bytes])
#
# gives TARGET the header <generated/NAME.h>, which declares trek::fat_binaries::NAME; NAME is the source's
# stem unless it is given. The source is compiled for the portable level sm_80, whose PTX is always carried
# (PTX 8.0: anything from Ampere and driver 525 on), and for the level sm_90a where that is among CUBINS;
# there clang defines __CUDA_ARCH_FEAT_SM90_ALL. LEVELS are those of them that are wanted, else all. ptxas fails the build with a warning of the C75xx family and
# with more than MAX_SPILL bytes of spilled registers in a function.
#
# Without clang++-19 fat binaries are empty, so that the same sources build and say at run time that this
# build has no device code; without ptxas they are PTX, which the driver compiles when it is first used.
include_guard(GLOBAL)

find_program(TREK_DEVICE_CLANG clang++-19)
find_program(TREK_PTXAS ptxas PATHS /usr/local/cuda/bin)
mark_as_advanced(TREK_DEVICE_CLANG TREK_PTXAS)
if(NOT TREK_DEVICE_CLANG)
  message(STATUS "without clang++-19: building without device code")
elseif(NOT TREK_PTXAS)
  message(STATUS "ptxas is not installed: the driver will compile device code when it is first used")
endif()

# Adds one image to the lists `code`, `rows` and `files` of the caller.
function(trek_carry_image LEVEL TARGET KIND FILE)
  list(LENGTH files number)
  string(
    APPEND
    code
    "    \".balign 16\\n\"\n    \"trek_${name}_${number}:\\n\"\n    \".incbin \\\"${FILE}\\\"\\n\"\n"
    "    \"trek_${name}_${number}_end:\\n\"\n    \".byte 0\\n\"\n")
  string(APPEND symbols
         "extern \"C\" const char trek_${name}_${number}[];\nextern \"C\" const char trek_${name}_${number}_end[];\n")
  string(
    APPEND
    rows
    "    {\"${LEVEL}\", \"${TARGET}\", Image::${KIND}, trek_${name}_${number}, trek_${name}_${number}_end},\n")
  list(APPEND files ${FILE})
  return(PROPAGATE code symbols rows files)
endfunction()

function(trek_add_fat_binary TARGET SOURCE)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "" "NAME;MAX_SPILL" "DEFINITIONS;CUBINS;LEVELS")
  set(name "${ARG_NAME}")
  if(NOT name)
    cmake_path(GET SOURCE STEM name)
  endif()
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/generated)
  set(compile ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/compile.sh)
  set(assemble ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/assemble.sh)
  file(MAKE_DIRECTORY ${folder})
  # Contraction off and correctly rounded operations: the strict numerics hold on the device too.
  include(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/device_flags.cmake)
  set(flags
      ${TREK_DEVICE_FLAGS}
      -std=c++20
      -O3
      -ffp-contract=off
      -fno-math-errno
      -Wall
      -Wextra
      -Werror
      -I${PROJECT_SOURCE_DIR})
  list(TRANSFORM ARG_DEFINITIONS PREPEND -D)

  set(levels sm_80)
  if(sm_90a IN_LIST ARG_CUBINS)
    set(levels sm_90a sm_80) # the better one first
  endif()
  if(ARG_LEVELS)
    set(levels ${ARG_LEVELS})
  endif()
  if(NOT TREK_DEVICE_CLANG)
    set(levels)
  endif()
  foreach(level IN LISTS levels)
    set(ptx ${folder}/${name}.${level}.ptx)
    add_custom_command(
      OUTPUT ${ptx}
      COMMAND ${compile} ${TREK_DEVICE_CLANG} ${ptx} ${flags} --cuda-gpu-arch=${level} ${ARG_DEFINITIONS} -S
              ${CMAKE_CURRENT_SOURCE_DIR}/${SOURCE}
      DEPENDS ${SOURCE} ${compile}
      DEPFILE ${ptx}.d
      COMMENT "Compiling ${SOURCE} to PTX (${name}, ${level})"
      VERBATIM)
    set(targets ${ARG_CUBINS})
    if(level STREQUAL sm_80)
      list(FILTER targets EXCLUDE REGEX "a$")
    else()
      set(targets ${level})
    endif()
    if(NOT TREK_PTXAS)
      set(targets)
    endif()
    foreach(target IN LISTS targets)
      set(cubin ${folder}/${name}.${level}.${target}.cubin)
      add_custom_command(
        OUTPUT ${cubin}
        COMMAND ${assemble} ${TREK_PTXAS} ${target} "${ARG_MAX_SPILL}" ${ptx} ${cubin}
        DEPENDS ${ptx} ${assemble}
        COMMENT "Assembling ${name} of level ${level} for ${target}"
        VERBATIM)
      trek_carry_image(${level} ${target} cubin ${cubin})
    endforeach()
    if(level STREQUAL sm_80 OR NOT targets)
      trek_carry_image(${level} ${level} ptx ${ptx})
    endif()
  endforeach()

  list(LENGTH files count)
  file(
    CONFIGURE
    OUTPUT ${folder}/${name}.h
    CONTENT
      "// Made by trek_add_fat_binary.
#pragma once

#include \"emulator/driver/fat_binary.h\"

namespace trek::fat_binaries {
extern const driver::FatBinary @name@;
}
"
    @ONLY)
  file(
    CONFIGURE
    OUTPUT ${folder}/${name}.cpp
    CONTENT
      "// Made by trek_add_fat_binary.
#include <generated/@name@.h>

#include <array>

asm(\".pushsection .rodata\\n\"
@code@    \".popsection\\n\");
@symbols@
namespace trek::fat_binaries {
namespace {
using driver::Image;
constexpr std::array<Image, @count@> kImages = {{
@rows@}};
}  // namespace
constinit const driver::FatBinary @name@ = {\"@name@\", kImages};
}  // namespace trek::fat_binaries
"
    @ONLY)
  set_source_files_properties(${folder}/${name}.cpp PROPERTIES OBJECT_DEPENDS "${files}")
  target_sources(${TARGET} PRIVATE ${folder}/${name}.cpp)
  target_include_directories(${TARGET} PRIVATE ${CMAKE_CURRENT_BINARY_DIR})
endfunction()
