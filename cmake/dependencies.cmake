# What Trek takes from Debian 12. tools/setup installs these packages; a library is looked for only
# where the chosen options use it, so that `make demo` needs few of them.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)

# Libraries without a CMake configuration of their own become imported targets.
function(trek_find_library TARGET HEADER)
  string(REPLACE "::" "_" prefix ${TARGET})
  find_path(${prefix}_include ${HEADER} REQUIRED)
  mark_as_advanced(${prefix}_include)
  add_library(${TARGET} INTERFACE IMPORTED GLOBAL)
  target_include_directories(${TARGET} INTERFACE ${${prefix}_include})
  foreach(name IN LISTS ARGN)
    find_library(${prefix}_${name} ${name} REQUIRED)
    mark_as_advanced(${prefix}_${name})
    target_link_libraries(${TARGET} INTERFACE ${${prefix}_${name}})
  endforeach()
endfunction()

trek_find_library(xxhash::xxhash xxhash.h xxhash)

if(TREK_TESTS)
  find_package(Catch2 2.13 REQUIRED)
  trek_find_library(mpfr::mpfr mpfr.h mpfr gmp)
endif()

if(TREK_BENCH)
  find_package(dnnl REQUIRED)
endif()

# Debian's own interpreter: its python3-numpy and python3-xxhash are not seen by another python3 that
# comes first on the PATH.
if(TREK_TESTS OR TREK_BENCH)
  find_program(TREK_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH REQUIRED)
  mark_as_advanced(TREK_PYTHON)
endif()
