#include "hostlib/run/json_report.h"

#include <cmath>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "assembler/data/data.h"
#include "hostlib/names.h"
#include "hostlib/place.h"
#include "hostlib/run/tuning_report.h"
#include "hostlib/values.h"

namespace trek::run {
namespace {

using Json = nlohmann::ordered_json;
using isa::Module;

constexpr int64_t kSmallElements = 64;  // of an emitted value that is written out

// JSON has no nan and no inf: they are strings, as the text language spells them.
Json element_json(isa::DType dtype, uint64_t bits) {
  const double number = element_number(dtype, bits);
  switch (isa::kind(dtype)) {
    case isa::DTypeKind::boolean:
      return bits != 0;
    case isa::DTypeKind::sint:
      return std::stoll(element_text(dtype, bits));
    case isa::DTypeKind::uint:
      return bits;
    default:
      break;
  }
  if (!std::isfinite(number)) return element_text(dtype, bits);
  // The shortest digits of the element's own type: 0.1f is 0.1, not 0.10000000149011612.
  return Json::parse(element_text(dtype, bits), nullptr, false);
}

Json value_json(const EmittedHistory::Entry& entry) {
  if (entry.digest) return nullptr;
  const isa::DType dtype = entry.type.dtype;
  if (entry.type.scalar || entry.type.shape.rank() == 0)
    return element_json(dtype, element_bits(dtype, entry.bytes, 0));
  Json list = Json::array();
  for (int64_t i = 0; i < entry.type.elements(); ++i)
    list.push_back(element_json(dtype, element_bits(dtype, entry.bytes, i)));
  return list;
}

Json emitted_json(const EmittedHistory& emitted) {
  Json list = Json::array();
  for (const EmittedHistory::Entry& entry : emitted.entries()) {
    Json item = {{"name", entry.name}, {"type", entry.type.text()}, {"value", value_json(entry)}};
    if (entry.digest) item["digest"] = entry.digest->text();
    list.push_back(std::move(item));
  }
  return list;
}

Json place_json(const Module& module, const Place& place) {
  const isa::Location location = location_at(module, place);
  Json json = {{"function", function_text(module, place)},
               {"instruction", place.instruction},
               {"mnemonic", isa::info(instruction_at(module, place).opcode).mnemonic}};
  if (location.line != 0 && location.file < module.debug.files.size())
    json.update({{"file", module.debug.files[location.file]},
                 {"line", location.line},
                 {"column", location.column}});
  return json;
}

std::string_view outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::done:
      return "done";
    case Outcome::trapped:
      return "trap";
    case Outcome::limit:
      return "limit";
    case Outcome::stopped:
      return "stopped";
  }
  return "";
}

Json result_json(const Module& module, const RunResult& result) {
  Json json = {{"outcome", outcome_name(result.outcome)}};
  if (result.trap) {
    const Trap& trap = *result.trap;
    Json callers = Json::array();
    for (const Place& caller : trap.callers) callers.push_back(place_json(module, caller));
    json["trap"] = {{"code", isa::name(trap.code)},
                    {"detail", trap.detail},
                    {"at", place_json(module, trap.place)},
                    {"callers", std::move(callers)},
                    {"element", trap.element}};
  } else if (result.outcome != Outcome::done) {
    json["at"] = place_json(module, result.place);
    json["detail"] = result.detail;
  }
  return json;
}

Json digests_json(Session& session) {
  Json list = Json::array();
  for (const TensorDigest& made : session.digests())
    list.push_back({{"name", tensor_name(session.module(), made.tensor)},
                    {"type", tensor_type(session.module(), made.tensor).text()},
                    {"role", isa::name(session.module().tensors[made.tensor].role)},
                    {"digest", made.digest.text()}});
  return list;
}

Json stage_json(const Stage& stage) {
  return {{"runs", stage.runs}, {"nanoseconds", stage.nanoseconds}, {"trips", stage.trips}};
}

Json compiling_json(const CompileCounters& counters) {
  if (!counters.compiles) return nullptr;
  return {{"nanoseconds", counters.nanoseconds},
          {"failure", counters.failure},
          {"first_run", counters.first_run},
          {"interpreted", stage_json(counters.interpreted)},
          {"compiled", stage_json(counters.compiled)}};
}

Json counters_json(const Counters& counters) {
  Json load = Json::object();  // nanoseconds of each phase, in order
  for (const LoadPhase& phase : counters.load) load[std::string(phase.name)] = phase.nanoseconds;
  return {
      {"instructions", counters.instructions},
      {"nanoseconds", counters.nanoseconds},
      {"memory_bytes", counters.memory_bytes},
      {"load", load},
      {"compiling", compiling_json(counters.compiling)},
      {"tiles", {{"products", counters.tiles.products}, {"measured", counters.tiles.measured}}}};
}

Json profile_json(const Module& module, const Counters& counters) {
  Json list = Json::array();
  for (const InstructionCounters& counted : counters.per_instruction) {
    Json row = place_json(module, counted.place);
    row.update({{"text", written_text(module, counted.place)},
                {"calls", counted.calls},
                {"nanoseconds", counted.nanoseconds},
                {"flops", counted.flops},
                {"bytes", counted.bytes}});
    list.push_back(std::move(row));
  }
  return list;
}

Json estimate_json(const measure::Estimate& estimate) {
  return {{"median", estimate.median},
          {"low", estimate.interval.low},
          {"high", estimate.interval.high},
          {"samples", estimate.samples}};
}

Json tuned_product_json(const Module& module, const Tuning& tuning, const TunedProduct& product) {
  Json at = Json::array();
  for (const Place& place : product.places) at.push_back(place_json(module, place));
  Json json = {{"product", plan::text(product.product, tuning.device)},
               {"at", std::move(at)},
               {"candidates", product.candidates}};
  if (!product.is_measured()) {
    json["failure"] = product.failure;
    return json;
  }
  Json tried = Json::array();
  for (const TriedTiles& each : product.tried)
    tried.push_back(
        {{"rows", each.tiles.rows},
         {"columns", each.tiles.columns},
         {"part_columns", each.tiles.part_columns},
         {"split", each.tiles.split},
         {"pairs", plan::name(each.tiles.pairing)},
         {"transposed", each.tiles.transposed},
         {"runs", each.tiles.runs},
         {"tasks", each.tiles.count},
         {"rows_apart", each.is_divided},
         {"estimate", each.is_divided ? Json() : Json(each.cycles)},
         {"seconds", estimate_json(each.seconds)},
         {"seconds_alone", each.alone.samples > 0 ? estimate_json(each.alone) : Json()}});
  json.update({{"tried", std::move(tried)},
               {"chosen_by_cost_model", 0},
               {"before", product.before},
               {"now", product.now},
               {"fastest", product.fastest},
               {"gain", estimate_json(product.gain)}});
  return json;
}

Json tuning_json(const Module& module, const std::optional<Tuning>& tuning) {
  if (!tuning) return nullptr;
  Json products = Json::array();
  for (const TunedProduct& product : tuning->products)
    products.push_back(tuned_product_json(module, *tuning, product));
  const Ranking ranking = ranking_of(*tuning);
  return {{"device", tuning->device.name},
          {"code", tuning->device.code},
          {"processors", tuning->device.processors},
          {"cost_model", {{"mean", ranking.mean}, {"worst", ranking.worst}}},
          {"left_out", tuning->left_out},
          {"products", std::move(products)}};
}

}  // namespace

void EmittedHistory::add(const Emitted& value) {
  if (entries_.size() == kMaxValues) {
    ++left_out_;
    return;
  }
  const bool small = value.type.elements() <= kSmallElements;
  Entry entry{std::string(value.name), value.type, {}, std::nullopt};
  if (small)
    entry.bytes.assign(value.bytes.begin(), value.bytes.end());
  else
    entry.digest = digest(value.type.dtype, value.bytes);
  entries_.push_back(std::move(entry));
}

isa::Problems write_json_report(const std::filesystem::path& path, const Options& options,
                                const Engine& engine, Session& session, const RunResult& result,
                                const EmittedHistory& emitted,
                                const std::optional<Tuning>& tuning) {
  const Module& module = session.module();
  const Json report = {
      {"command", options.command},
      {"version", TREK_VERSION},
      {"isa", fmt::format("{}.{}", isa::kVersionMajor, isa::kVersionMinor)},
      {"engine", engine.description()},
      {"engine_name", engine.name()},
      {"numerics", name(options.numerics)},
      {"threads", options.threads},
      {"seed", options.seed},
      {"result", result_json(module, result)},
      {"emitted", emitted_json(emitted)},
      {"emitted_left_out", emitted.left_out()},
      {"digests", digests_json(session)},
      {"counters", counters_json(session.counters())},
      {"profile", profile_json(module, session.counters())},
      {"tuning", tuning_json(module, tuning)},
  };
  const std::string text = report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return write_file(path, std::as_bytes(std::span(text)));
}

}  // namespace trek::run
