# trek_options: how every target of Trek is compiled. Link it PRIVATE from each target:
#   target_link_libraries(trek_isa PRIVATE trek_options)
#
# Headers are included from the repository root: #include "isa/types.h".
add_library(trek_options INTERFACE)
target_compile_features(trek_options INTERFACE cxx_std_20)
target_include_directories(trek_options INTERFACE ${PROJECT_SOURCE_DIR})

# Warnings. -Wdouble-promotion: a float that quietly becomes a double changes bits.
# clang's -Wconversion includes -Wsign-conversion, gcc's does not: off in both, so that what one
# accepts the other does too.
target_compile_options(
  trek_options
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wconversion
            -Wno-sign-conversion
            -Wshadow
            -Wdouble-promotion
            -Wnon-virtual-dtor
            -Woverloaded-virtual
            $<$<BOOL:${TREK_WERROR}>:-Werror>)

# Numerics. The ISA says where an fma is used, so the compiler must not choose (gcc and clang both
# would). No code reads errno or the floating-point flags after an operation; saying so lets sqrt and
# comparisons vectorise and changes no result.
target_compile_options(trek_options INTERFACE -ffp-contract=off -fno-math-errno -fno-trapping-math)

# Checked indexing in the standard library where speed is not the point.
if(TREK_SANITIZE)
  target_compile_definitions(trek_options INTERFACE _GLIBCXX_ASSERTIONS)
else()
  target_compile_definitions(trek_options INTERFACE $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)
endif()

if(TREK_SANITIZE)
  target_compile_options(trek_options INTERFACE -fsanitize=${TREK_SANITIZE} -fno-sanitize-recover=all
                                                -fno-omit-frame-pointer)
  target_link_options(trek_options INTERFACE -fsanitize=${TREK_SANITIZE})
endif()

if(TREK_COVERAGE)
  target_compile_options(trek_options INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(trek_options INTERFACE --coverage)
endif()

# trek_fuzzed: the libraries under fuzzing carry libFuzzer's edge counters; its main comes with the fuzz targets
# (trek_add_fuzz in testing.cmake), so the tools of the same build stay ordinary programs.
add_library(trek_fuzzed INTERFACE)
if(TREK_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "TREK_FUZZ needs clang: cmake --preset asan")
  endif()
  target_compile_options(trek_fuzzed INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Headers that most files include, compiled once for a set of flags. `make demo` does without, so a file that
# leaves an include to them does not stay unseen; so does ccache, which does not keep what is compiled with them.
set(precompile ON)
if(TREK_CCACHE OR NOT TREK_TESTS)
  set(precompile OFF)
endif()
option(TREK_PRECOMPILE "Precompile the headers that most files include" ${precompile})
set(trek_common_headers
    <algorithm>
    <array>
    <bit>
    <cstdint>
    <cstring>
    <filesystem>
    <functional>
    <map>
    <memory>
    <optional>
    <set>
    <span>
    <string>
    <string_view>
    <unordered_map>
    <utility>
    <variant>
    <vector>
    <fmt/format.h>)

#   trek_precompile(TARGET [WITH NAME header...] [LIBS lib...])
#       Takes the common headers, and those of WITH, from a library that has only these, `common` or NAME; targets that
#       name the same one share it. What has flags of its own names one of its own, with its flags or the headers'
#       package in LIBS.
function(trek_precompile TARGET)
  if(NOT TREK_PRECOMPILE)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "WITH;LIBS")
  set(name common)
  set(headers ${ARG_WITH})
  if(headers)
    list(POP_FRONT headers name)
  endif()
  if(NOT TARGET trek_headers_${name})
    set(source ${PROJECT_BINARY_DIR}/headers_${name}.cpp)
    file(CONFIGURE OUTPUT ${source} CONTENT "")
    add_library(trek_headers_${name} OBJECT ${source})
    target_link_libraries(trek_headers_${name} PRIVATE trek_options fmt::fmt ${ARG_LIBS})
    target_precompile_headers(trek_headers_${name} PRIVATE ${trek_common_headers} ${headers})
  endif()
  target_precompile_headers(${TARGET} REUSE_FROM trek_headers_${name})
  # gcc 12 takes strings that grow for too short, and says so of the standard library where that is precompiled.
  target_compile_options(
    ${TARGET} PRIVATE "$<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow>")
endfunction()

# The same of a program with a command line.
function(trek_precompile_program TARGET)
  trek_precompile(${TARGET} WITH programs <CLI/CLI.hpp> LIBS CLI11::CLI11)
endfunction()

#   trek_precompile_engine(TARGET)
#       The same of an engine but ref, and of what only these want. Where ref alone is to run under sanitizers, as without
#       device code, nothing executes them: there they are not optimised, which with sanitizers takes most of the time.
add_library(trek_unoptimised INTERFACE)
target_compile_options(trek_unoptimised INTERFACE -O0)
function(trek_precompile_engine TARGET)
  if(TREK_SANITIZE AND DEFINED TREK_DEVICE_CLANG AND NOT TREK_DEVICE_CLANG)
    target_link_libraries(${TARGET} PRIVATE trek_unoptimised)
    trek_precompile(${TARGET} WITH unoptimised LIBS trek_unoptimised)
  else()
    trek_precompile(${TARGET})
  endif()
endfunction()
