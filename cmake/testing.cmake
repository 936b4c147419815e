# How tests are declared. Every test runs in the repository's root, finds the tools in $TREK_BIN, has a
# label (its folder, unless it says otherwise) and a time limit. With TREK_TESTS off the functions do
# nothing, so any folder may declare its tests beside what they check.
#
#   trek_add_test(NAME source... LIBS lib... [LABELS l...] [TIMEOUT s])
#       a Catch2 program; each TEST_CASE becomes one test, "NAME/what it holds". A case that cannot
#       run here prints "trek-skipped: reason".
#   trek_add_check(NAME COMMAND command... [LABELS l...] [TIMEOUT s] [ENVIRONMENT k=v...] [SERIAL])
#       a command; 0 passes, 77 is skipped and its output says why.
#   trek_add_fuzz(NAME source... LIBS lib...)
#       a libFuzzer program fuzz-NAME; built with TREK_FUZZ, run as a test by the build with tests.
#
# Labels with a meaning: `slow` is left out of `make test`, `fuzz` and `lint` are what they say.
if(TREK_TESTS)
  enable_testing()
  include(Catch)
endif()

# The build with sanitizers, whose programs tests of this build run: fuzzers, and tools for comparing
# the digests of two compilers.
set(TREK_ASAN_BIN ${PROJECT_SOURCE_DIR}/build/asan-ref/bin)

set(trek_test_environment TREK_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY} TREK_ASAN_BIN=${TREK_ASAN_BIN})

# In the caller: `labels` and `timeout`, from the arguments or by default.
macro(trek_test_defaults LABELS TIMEOUT)
  cmake_path(GET CMAKE_CURRENT_SOURCE_DIR FILENAME labels)
  if(NOT "${LABELS}" STREQUAL "")
    set(labels "${LABELS}")
  endif()
  set(timeout 120)
  if(NOT "${TIMEOUT}" STREQUAL "")
    set(timeout ${TIMEOUT})
  endif()
  if(TREK_SANITIZE OR TREK_COVERAGE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    math(EXPR timeout "${timeout} * 10")
  endif()
endmacro()

# Tests are compiled once and run once: what they call is optimised, they themselves are so a little less.
add_library(trek_test_options INTERFACE)
target_compile_options(trek_test_options INTERFACE $<$<CONFIG:RelWithDebInfo>:-O1>)

function(trek_add_test NAME)
  if(NOT TREK_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TIMEOUT" "LIBS;LABELS")
  trek_test_defaults("${ARG_LABELS}" "${ARG_TIMEOUT}")
  list(LENGTH labels count)
  if(count GREATER 1)
    message(FATAL_ERROR "${NAME}: Catch2's discovery passes one label on, not ${count}")
  endif()
  add_executable(${NAME} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${NAME} PRIVATE trek_options trek_test_options trek_catch_main fmt::fmt
                                        ${ARG_LIBS})
  set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY
                                           ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/tests)
  trek_precompile(${NAME} WITH tests <catch2/catch.hpp> LIBS Catch2::Catch2 trek_test_options)
  catch_discover_tests(
    ${NAME}
    EXTRA_ARGS --warn NoTests # a name that Catch2 cannot match fails instead of passing unrun
    TEST_PREFIX "${NAME}/"
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    PROPERTIES LABELS ${labels} TIMEOUT ${timeout} SKIP_REGULAR_EXPRESSION "trek-skipped: "
               ENVIRONMENT TREK_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
endfunction()

function(trek_add_check NAME)
  if(NOT TREK_TESTS)
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 ARG "SERIAL" "TIMEOUT" "COMMAND;LABELS;ENVIRONMENT")
  trek_test_defaults("${ARG_LABELS}" "${ARG_TIMEOUT}")
  add_test(NAME ${NAME} COMMAND ${ARG_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(
    ${NAME}
    PROPERTIES LABELS "${labels}"
               TIMEOUT ${timeout}
               COST ${timeout} # what may take long begins first, so that no processor is without work at the end
               SKIP_RETURN_CODE 77
               RUN_SERIAL ${ARG_SERIAL}
               ENVIRONMENT "${trek_test_environment};${ARG_ENVIRONMENT}")
endfunction()

function(trek_add_fuzz NAME)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "" "LIBS")
  if(TREK_FUZZ)
    add_executable(fuzz-${NAME} ${ARG_UNPARSED_ARGUMENTS})
    target_link_libraries(fuzz-${NAME} PRIVATE trek_options trek_fuzzed ${ARG_LIBS})
    target_link_options(fuzz-${NAME} PRIVATE -fsanitize=fuzzer)
  endif()
  trek_add_check(
    fuzz-${NAME}
    COMMAND ${PROJECT_SOURCE_DIR}/tools/fuzz ${NAME}
    LABELS fuzz
    TIMEOUT 300
    ENVIRONMENT FUZZ_SECONDS=60 FUZZ_SEED=1)
endfunction()
