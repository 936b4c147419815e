#include "hostlib/tile_file.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <variant>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

#include "assembler/data/data.h"
#include "emulator/driver/user_cache.h"

namespace trek {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using plan::MatrixTiles;
using plan::ProductKey;
using Warnings = std::vector<std::string>;

constexpr std::string_view kFormat = "trek tiles";
constexpr int kVersion = 1;
constexpr int64_t kLargest = int64_t{1} << 48;  // that a number may be

// What tells an entry apart from others.
struct Identity {
  std::string device;
  std::string code;
  int64_t processors = 0;
  ProductKey product;
  bool operator==(const Identity&) const = default;
};
Identity identity_of(const plan::Device& device, const ProductKey& product) {
  return {device.name, device.code, device.processors, product};
}

struct Entry {
  Identity identity;
  MatrixTiles tiles;
  double seconds = 0;
};

// ---- one entry -----------------------------------------------------------------------------------

struct Count {
  const char* name;
  int64_t least;
};
using CountOfShape = std::pair<Count, int64_t plan::MatrixShape::*>;
constexpr CountOfShape kShape[] = {{{"m", 1}, &plan::MatrixShape::m},
                                   {{"n", 1}, &plan::MatrixShape::n},
                                   {{"k", 1}, &plan::MatrixShape::k},
                                   {{"batches", 1}, &plan::MatrixShape::batches}};
constexpr std::pair<const char*, bool plan::MatrixShape::*> kTransposes[] = {
    {"ta", &plan::MatrixShape::ta}, {"tb", &plan::MatrixShape::tb}};
using CountOfTiles = std::pair<Count, int64_t MatrixTiles::*>;
constexpr CountOfTiles kTiles[] = {{{"rows", 1}, &MatrixTiles::rows},
                                   {{"columns", 1}, &MatrixTiles::columns},
                                   {{"part_columns", 0}, &MatrixTiles::part_columns},
                                   {{"split", 1}, &MatrixTiles::split}};

Json json_of(const Entry& entry) {
  const Identity& of = entry.identity;
  Json json = {{"device", of.device},
               {"code", of.code},
               {"processors", of.processors},
               {"numerics", of.product.fast ? "fast" : "strict"},
               {"operands", isa::name(of.product.operands)},
               {"result", isa::name(of.product.result)}};
  for (const auto& [count, member] : kShape) json[count.name] = of.product.shape.*member;
  for (const auto& [name, member] : kTransposes) json[name] = of.product.shape.*member;
  json["share"] = of.product.share;
  for (const auto& [count, member] : kTiles) json[count.name] = entry.tiles.*member;
  if (entry.tiles.pairing != plan::Pairing::none) json["pairs"] = name(entry.tiles.pairing);
  if (entry.tiles.transposed) json["transposed"] = true;
  if (entry.tiles.runs != 0) json["runs"] = entry.tiles.runs;
  json["seconds"] = entry.seconds;
  return json;
}

// The members of one entry; what is wrong with the first that is.
class EntryReader {
 public:
  explicit EntryReader(const Json& entry) : entry_(entry) {
    if (!entry.is_object()) wrong_ = "is no object";
  }
  const std::string& wrong() const { return wrong_; }

  std::string text(const char* name) {
    const Json* value = find(name);
    if (value == nullptr) return "";
    if (value->is_string()) return value->get<std::string>();
    refuse(name, "is no text");
    return "";
  }
  int64_t count(const Count& wanted) {
    const Json* value = find(wanted.name);
    if (value == nullptr) return 0;
    const bool is_count = value->is_number_integer() && *value >= wanted.least &&
                          value->get<double>() <= static_cast<double>(kLargest);
    if (!is_count) refuse(wanted.name, fmt::format("is no number from {}", wanted.least));
    return is_count ? value->get<int64_t>() : 0;
  }
  bool flag(const char* name) {
    const Json* value = find(name);
    if (value != nullptr && !value->is_boolean()) refuse(name, "is neither true nor false");
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }
  bool flag_if_given(const char* name) { return has(name) && flag(name); }
  int64_t count_if_given(const Count& wanted) { return has(wanted.name) ? count(wanted) : 0; }
  plan::Pairing pairing_if_given(const char* name) {
    if (!has(name)) return plan::Pairing::none;
    const std::string spelt = text(name);
    for (const plan::Pairing pairing : {plan::Pairing::depth, plan::Pairing::columns})
      if (spelt == plan::name(pairing)) return pairing;
    refuse(name, "is neither depth nor columns");
    return plan::Pairing::none;
  }
  double seconds(const char* name) {
    const Json* value = find(name);
    if (value == nullptr) return 0;
    const double seconds = value->is_number() ? value->get<double>() : -1;
    if (!(seconds > 0)) refuse(name, "is no time");
    return seconds;
  }
  isa::DType dtype(const char* name) {
    const std::string spelt = text(name);
    const std::optional<isa::DType> dtype = isa::dtype_from_name(spelt);
    if (!dtype) refuse(name, fmt::format("is no element type: '{}'", spelt));
    return dtype.value_or(isa::DType::none);
  }
  bool is_fast(const char* name) {
    const std::string spelt = text(name);
    if (spelt != "fast" && spelt != "strict") refuse(name, "is neither strict nor fast");
    return spelt == "fast";
  }

 private:
  bool has(const char* name) const { return entry_.is_object() && entry_.contains(name); }
  const Json* find(const char* name) {
    if (!entry_.is_object()) return nullptr;
    const auto found = entry_.find(name);
    if (found != entry_.end()) return &*found;
    refuse(name, "is missing");
    return nullptr;
  }
  void refuse(const char* name, const std::string& why) {
    if (wrong_.empty()) wrong_ = fmt::format("{} {}", name, why);
  }
  const Json& entry_;
  std::string wrong_;
};

// The entry, or what is wrong with it.
std::variant<Entry, std::string> entry_of(const Json& json) {
  EntryReader reader(json);
  Entry entry;
  Identity& of = entry.identity;
  of.device = reader.text("device");
  of.code = reader.text("code");
  of.processors = reader.count({"processors", 1});
  of.product.fast = reader.is_fast("numerics");
  of.product.operands = reader.dtype("operands");
  of.product.result = reader.dtype("result");
  for (const auto& [count, member] : kShape) of.product.shape.*member = reader.count(count);
  of.product.shape.whole_k = of.product.shape.k;
  for (const auto& [name, member] : kTransposes) of.product.shape.*member = reader.flag(name);
  of.product.share = reader.count({"share", 1});
  for (const auto& [count, member] : kTiles) entry.tiles.*member = reader.count(count);
  entry.tiles.pairing = reader.pairing_if_given("pairs");
  entry.tiles.transposed = reader.flag_if_given("transposed");
  entry.tiles.runs = reader.count_if_given({"runs", 1});
  entry.seconds = reader.seconds("seconds");
  if (!reader.wrong().empty()) return reader.wrong();
  return entry;
}

// ---- the file ------------------------------------------------------------------------------------

// "3:17" of a byte.
std::string line_and_column(std::string_view text, size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte, text.size()));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const size_t line = before.rfind('\n');
  const size_t column = line == std::string_view::npos ? before.size() : before.size() - line - 1;
  return fmt::format("{}:{}", lines + 1, std::max<size_t>(1, column));
}

// Its entries as they are, and none of a file that is not there; nothing, with a warning, of one that is not ours.
std::optional<Json> entries_of(const fs::path& file, Warnings& warnings) {
  std::error_code error;
  if (!fs::exists(file, error) && !error) return Json::array();
  const auto refuse = [&](const std::string& where, std::string_view why) {
    warnings.push_back(
        fmt::format("{}{}: {}; measured tiles are neither read from it nor kept in it",
                    file.string(), where, why));
    return std::nullopt;
  };
  if (!fs::is_regular_file(file, error)) return refuse("", "is no file that can be read");
  const isa::Result<std::vector<std::byte>> bytes = read_file(file);
  if (!bytes) {
    warnings.push_back(bytes.problems()[0].message);
    return std::nullopt;
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& wrong) {
    return refuse(":" + line_and_column(text, wrong.byte), "is no JSON");
  }
  if (!json.is_object() || !json.contains("format") || json["format"] != kFormat)
    return refuse("", "is no file of tiles");
  if (!json.contains("version") || json["version"] != kVersion)
    return refuse("", fmt::format("is not of version {}", kVersion));
  if (!json.contains("tiles") || !json["tiles"].is_array())
    return refuse("", "has no list of tiles");
  return std::move(json["tiles"]);
}

// Held while a file is read, added to and replaced; others wait.
class FileLock {
 public:
  explicit FileLock(const fs::path& file)
      : descriptor_(::open((file.string() + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    constexpr int kTries = 500;
    for (int i = 0; descriptor_ >= 0 && !held_ && i < kTries; ++i) {
      held_ = ::flock(descriptor_, LOCK_EX | LOCK_NB) == 0;
      error_ = errno;
      if (!held_) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ~FileLock() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  bool is_held() const { return held_; }
  // Why it is not.
  std::string why() const { return std::strerror(error_); }

 private:
  int descriptor_;
  int error_ = errno;
  bool held_ = false;
};

// The file's text, an entry a line.
std::string text_of(const Json& entries) {
  const auto spelt = [](const Json& json) {
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string text =
      fmt::format("{{\"format\": \"{}\", \"version\": {}, \"tiles\": [", kFormat, kVersion);
  for (size_t i = 0; i < entries.size(); ++i)
    text += (i == 0 ? "\n  " : ",\n  ") + spelt(entries[i]);
  return text + "\n]}\n";
}

void put(Json& entries, const Entry& entry) {
  for (Json& there : entries) {
    const auto read = entry_of(there);
    const Entry* old = std::get_if<Entry>(&read);
    if (old == nullptr || !(old->identity == entry.identity)) continue;
    there = json_of(entry);
    return;
  }
  entries.push_back(json_of(entry));
}

}  // namespace

fs::path tile_file() {
  if (const char* named = std::getenv("TREK_TUNED"))
    return std::string_view(named) == "off" ? fs::path() : fs::path(named);
  const fs::path cache = driver::user_cache();
  return cache.empty() ? cache : cache / "tiles.json";
}

std::vector<RememberedTiles> read_tiles(const fs::path& file, const plan::Device& device,
                                        Warnings& warnings) {
  std::vector<RememberedTiles> found;
  if (file.empty()) return found;
  const std::optional<Json> entries = entries_of(file, warnings);
  if (!entries) return found;
  for (size_t i = 0; i < entries->size(); ++i) {
    const auto read = entry_of((*entries)[i]);
    if (const auto* wrong = std::get_if<std::string>(&read)) {
      warnings.push_back(fmt::format("{}: tiles[{}] is ignored: {}", file.string(), i, *wrong));
      continue;
    }
    const Entry& entry = std::get<Entry>(read);
    if (entry.identity == identity_of(device, entry.identity.product))
      found.push_back({entry.identity.product, entry.tiles, entry.seconds});
  }
  return found;
}

bool write_tiles(const fs::path& file, const plan::Device& device,
                 std::span<const RememberedTiles> tiles, Warnings& warnings) {
  std::error_code error;
  if (file.has_parent_path()) fs::create_directories(file.parent_path(), error);
  const FileLock lock(file);
  if (!lock.is_held()) {
    warnings.push_back(
        fmt::format("{}: measured tiles cannot be kept: {}", file.string(), lock.why()));
    return false;
  }
  std::optional<Json> entries = entries_of(file, warnings);
  if (!entries) return false;
  for (const RememberedTiles& each : tiles)
    put(*entries, {identity_of(device, each.product), each.tiles, each.seconds});
  const std::string text = text_of(*entries);
  const isa::Problems problems = write_file(file, std::as_bytes(std::span(text)));
  for (const isa::Problem& problem : problems) warnings.push_back(problem.message);
  return problems.empty();
}

}  // namespace trek
