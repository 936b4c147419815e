// A stand-in for libcuda.so.1, built as a shared library of its own and loaded through the same door as
// the real one. It keeps accounts: which calls came, which handles live, and what was done wrong with
// them. Device memory is host memory, so that copies are real.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

namespace trek::fake {

struct Device {
  std::string name = "Fake H200";
  int major = 9;
  int minor = 0;
};

struct State {
  std::vector<Device> devices = {Device{}};
  int version = 13000;
  std::map<std::string, int> failures;  // symbol -> the CUresult that it returns
  std::string compiler_log;             // what loading a module says
  std::string linked;                   // what cuLinkAddData was given last
  std::string refused_image;            // one that cuModuleLoadDataEx fails to load; "": none
  std::vector<std::string> calls;       // symbols, in order
  std::set<void*> live;                 // handles not given back
  int contexts = 0;                     // retained and not released
  std::vector<std::string> faults;      // handles given back twice, contexts released too early
  std::vector<unsigned> last_launch;    // grid, block, shared bytes, attribute ids
};

}  // namespace trek::fake

// The one symbol beside the CUDA Driver API: the accounts, to read and to prepare.
using FakeCudaState = trek::fake::State* (*)();
