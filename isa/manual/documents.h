// The manual as a set of files, to be written or to be compared with a folder.
#pragma once

#include <string>
#include <vector>

#include "isa/manual/inputs.h"
#include "isa/result.h"

namespace trek::manual {

struct Document {
  std::string path;  // within the manual's folder: "pages/add.md"
  std::string text;
};

// Every file of the manual.
std::vector<Document> documents(const Inputs& inputs);

// The files of `folder` that are not what they should be, one line each: missing, stale, or generated
// for an instruction that the table no longer has.
std::vector<std::string> differences(const std::vector<Document>& manual,
                                     const std::string& folder);

// Writes the manual into `folder` and removes generated pages that no longer belong to it. Gives the
// files that changed, or what could not be written.
isa::Result<std::vector<std::string>> write_manual(const std::vector<Document>& manual,
                                                   const std::string& folder);

}  // namespace trek::manual
