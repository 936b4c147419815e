#include "assembler/diagnostics.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include <fmt/format.h>
#include <unistd.h>

namespace trek {
namespace {

// Longer lines are shown as the part around the range.
constexpr size_t kWidestLine = 120;

struct Palette {
  std::string_view bold, red, cyan, plain;
};
constexpr Palette kColours{"\033[1m", "\033[1;31m", "\033[36m", "\033[0m"};
constexpr Palette kNone{};

// Characters rather than bytes, for the columns of the caret line.
size_t columns(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

class Renderer {
 public:
  Renderer(const SourceManager& sources, const RenderOptions& options)
      : sources_(sources), options_(options), palette_(options.colour ? kColours : kNone) {}

  std::string render(const isa::Problem& problem) {
    place(problem.where);
    put("{}error[{}]:{} {}{}", palette_.red, isa::code(problem.code), palette_.plain, palette_.bold,
        printable(problem.message));
    if (!problem.where.known() && !problem.place.empty()) put(" ({})", printable(problem.place));
    put("{}\n", palette_.plain);
    excerpt(problem.where);
    for (const isa::Note& note : problem.notes) {
      place(note.where);
      put("{}note:{} {}\n", palette_.cyan, palette_.plain, printable(note.message));
    }
    if (!problem.help.empty())
      put("{}help:{} {}\n", palette_.cyan, palette_.plain, printable(problem.help));
    return std::move(out_);
  }

 private:
  template <class... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  void place(const isa::SourceRange& where) {
    if (where.known() && where.file < sources_.size()) {
      put("{}{}:{}:{}:{} ", palette_.bold, printable(sources_.name(where.file)), where.line,
          where.column, palette_.plain);
    } else if (!options_.file.empty()) {
      put("{}{}:{} ", palette_.bold, printable(options_.file), palette_.plain);
    }
  }

  void excerpt(const isa::SourceRange& where) {
    if (!where.known() || where.file >= sources_.size()) return;
    std::string_view line = sources_.line(where.file, where.line);
    size_t begin = std::min<size_t>(where.column == 0 ? 0 : where.column - 1, line.size());
    std::string_view before;
    std::string_view after;
    if (line.size() > kWidestLine) {
      const size_t first = begin > kWidestLine / 2 ? begin - kWidestLine / 2 : 0;
      before = first > 0 ? "..." : "";
      after = line.size() - first > kWidestLine ? "..." : "";
      line = line.substr(first, kWidestLine);
      begin -= first;
    }
    const size_t length =
        std::clamp<size_t>(where.length, 1, std::max<size_t>(line.size() - begin, 1));
    const std::string lead = printable(line.substr(0, begin));
    const std::string marked = printable(line.substr(begin, length));
    const size_t width = std::max<size_t>(columns(marked), 1);
    put("{:>5} | {}{}{}\n", where.line, before, printable(line), after);
    put("      | {}{}^{}{}\n", std::string(before.size() + columns(lead), ' '), palette_.red,
        std::string(width - 1, '~'), palette_.plain);
  }

  const SourceManager& sources_;
  const RenderOptions& options_;
  const Palette& palette_;
  std::string out_;
};

}  // namespace

std::string printable(std::string_view bytes) {
  std::string out;
  for (size_t i = 0; i < bytes.size();) {
    const auto byte = static_cast<unsigned char>(bytes[i]);
    const size_t length = byte < 0x80       ? 1
                          : byte >> 5 == 6  ? 2
                          : byte >> 4 == 14 ? 3
                          : byte >> 3 == 30 ? 4
                                            : 0;
    bool whole = length != 0 && i + length <= bytes.size();
    for (size_t k = 1; whole && k < length; ++k)
      whole = (static_cast<unsigned char>(bytes[i + k]) & 0xC0) == 0x80;
    if (!whole || (length == 1 && (byte < 0x20 || byte == 0x7F))) {
      out += byte == '\t' ? ' ' : '?';
      ++i;
      continue;
    }
    out += bytes.substr(i, length);
    i += length;
  }
  return out;
}

std::string render(const isa::Problem& problem, const SourceManager& sources,
                   const RenderOptions& options) {
  return Renderer(sources, options).render(problem);
}

std::string render(const isa::Problems& problems, const SourceManager& sources,
                   const RenderOptions& options) {
  std::string out;
  for (const isa::Problem& problem : problems) out += render(problem, sources, options);
  return out;
}

bool wants_colour(int descriptor) {
  const char* refused = std::getenv("NO_COLOR");
  return isatty(descriptor) == 1 && (refused == nullptr || *refused == '\0');
}

}  // namespace trek
