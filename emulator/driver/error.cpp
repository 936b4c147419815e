#include "emulator/driver/error.h"

namespace trek::driver {

std::string Error::text() const {
  std::string text = doing;
  for (const std::string& part : {name, detail}) {
    if (!part.empty()) text += (text.empty() ? "" : ": ") + part;
  }
  return text;
}

}  // namespace trek::driver
