// Catch2's main takes 18 s to compile: here, once, for every test program.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
