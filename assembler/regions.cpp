// Regions: loop, while, if and else, and the yield that ends them.
#include <fmt/format.h>

#include "assembler/function.h"

namespace trek::assembler {

using isa::ErrorCode;
using isa::Opcode;
using isa::Ref;

namespace {

std::string_view mnemonic(Opcode opcode) { return isa::info(opcode).mnemonic; }

}  // namespace

// `carry %a = %x, $n = 0`: names in carried_names_, initial values appended to values_.
bool FunctionParser::parse_carried() {
  carried_names_.clear();
  if (!core_.stream.peek().is_word("carry")) return true;
  core_.stream.next();
  do {
    Name name;
    if (!operands_.parse_name(name, "the name of a carried register")) return false;
    if (name.token.is(TokenKind::tensor))
      return core_.fail(ErrorCode::UnexpectedToken, name.where,
                        "what a region carries are registers");
    carried_names_.push_back(name);
    if (!core_.expect(TokenKind::assign) || !operands_.parse(values_.emplace_back())) return false;
  } while (core_.stream.accept(TokenKind::comma));
  return true;
}

Outcome FunctionParser::parse_loop(const Token& word) {
  Name counter;
  values_.assign(3, {});
  if (!operands_.parse_name(counter, "the counter, such as $i")) return Outcome::failed;
  if (!counter.token.is(TokenKind::scalar))
    return core_.fail(ErrorCode::ResultType, counter.where, "the counter of a loop is a scalar i64",
                      fmt::format("write ${}", counter.token.name())),
           Outcome::failed;
  if (!core_.expect(TokenKind::assign) || !operands_.parse(values_[0])) return Outcome::failed;
  if (!core_.stream.peek().is_word("until")) return core_.unexpected("'until'"), Outcome::failed;
  core_.stream.next();
  if (!operands_.parse(values_[1])) return Outcome::failed;
  if (core_.stream.peek().is_word("step")) {
    core_.stream.next();
    if (!operands_.parse(values_[2])) return Outcome::failed;
  } else {
    values_[2].kind = Operand::Kind::value;
    values_[2].value = Value::of(Wide{1});
  }
  if (!parse_carried()) return Outcome::failed;
  if (!core_.stream.at(TokenKind::left_brace))
    return core_.unexpected("'carry' or '{'"), Outcome::failed;
  const isa::Type i64 = isa::Type::make_scalar(isa::DType::i64);
  const isa::Type bounds[] = {i64, i64, i64};
  if (!resolve_values(values_, bounds, refs_)) return Outcome::failed;
  if (const auto fault =
          core_.build.open_loop(refs_[0], refs_[1], refs_[2], std::span(refs_).subspan(3))) {
    core_.fail(fault->code, values_[static_cast<size_t>(fault->index)].where, fault->message);
    return Outcome::failed;
  }
  carried_names_.insert(carried_names_.begin(), counter);
  Region region;
  region.opcode = Opcode::Loop;
  region.opener = word;
  return open_region(std::move(region), carried_names_) ? Outcome::opened : Outcome::failed;
}

Outcome FunctionParser::parse_while(const Token& word) {
  values_.clear();
  if (!parse_carried()) return Outcome::failed;
  if (!core_.stream.at(TokenKind::left_brace))
    return core_.unexpected("'carry' or '{'"), Outcome::failed;
  if (!resolve_values(values_, {}, refs_)) return Outcome::failed;
  core_.build.open_while(refs_);
  Region region;
  region.opcode = Opcode::While;
  region.opener = word;
  return open_region(std::move(region), carried_names_) ? Outcome::opened : Outcome::failed;
}

Outcome FunctionParser::parse_if(const Token& word) {
  values_.assign(1, {});
  if (!operands_.parse(values_[0])) return Outcome::failed;
  if (!core_.stream.at(TokenKind::left_brace)) return core_.unexpected("'{'"), Outcome::failed;
  const isa::Type boolean = isa::Type::make_scalar(isa::DType::boolean);
  if (!resolve_values(values_, std::span(&boolean, 1), refs_)) return Outcome::failed;
  if (const auto fault = core_.build.open_if(refs_[0], static_cast<uint32_t>(results_.size()))) {
    core_.fail(fault->code, values_[0].where, fault->message);
    return Outcome::failed;
  }
  Region region;
  region.opcode = Opcode::If;
  region.opener = word;
  return open_region(std::move(region), {}) ? Outcome::opened : Outcome::failed;
}

// At the '{' of a region that the builder has opened. The results get their names when it is closed.
bool FunctionParser::open_region(Region region, std::span<const Name> inside) {
  instructions_.keep_spellings(function_);
  const Token brace = core_.stream.next();
  const auto results = core_.build.results();
  region.names = results_;
  region.results.assign(results.begin(), results.end());
  region.carried = results.size();
  if (region.opcode != Opcode::If)
    for (Ref result : results) region.types.push_back(core_.build.type_of(result));
  region.typed = region.opcode != Opcode::If;
  scopes_.enter();
  const std::vector<Ref> registers(core_.build.registers().begin(), core_.build.registers().end());
  for (size_t i = 0; i < inside.size(); ++i) {
    const Name& name = inside[i];
    const isa::Type type = core_.build.type_of(registers[i]);
    if (type.scalar != name.token.is(TokenKind::scalar)) {
      core_.reporter.report(ErrorCode::ResultType, name.where, name.expansion,
                            fmt::format("what is carried is {} {}",
                                        type.scalar ? "the scalar" : "a tensor", type.text()),
                            fmt::format("write {}{}", type.scalar ? '$' : '%', name.token.name()));
      scopes_.define_broken(name);
      continue;
    }
    scopes_.define(name, registers[i]);
  }
  regions_.push_back(std::move(region));
  statements_.open_block(regions_.back().opener);
  if (regions_.size() > static_cast<size_t>(isa::kMaxNesting)) {
    // One message; what stands deeper is passed over.
    core_.fail(ErrorCode::NestingLimit, regions_.back().opener,
               fmt::format("regions nest at most {} deep", isa::kMaxNesting));
    core_.stream.abandon();
  }
  (void)brace;
  return true;
}

Outcome FunctionParser::parse_yield(const Token& word) {
  if (!results_.empty())
    return core_.fail(ErrorCode::ResultCount, results_[0].where, "'yield' has no result"),
           Outcome::failed;
  if (!parse_values(values_, TokenKind::newline)) return Outcome::failed;
  if (regions_.empty())
    return core_.fail(ErrorCode::Structure, word, "'yield' outside a region"), Outcome::failed;
  Region& region = regions_.back();
  region.yielded = true;
  const auto broken = [&] {
    region.broken = true;
    (void)core_.build.yield({});
    return Outcome::failed;
  };
  if (values_.size() != region.carried) {
    core_.fail(ErrorCode::YieldMismatch, word,
               fmt::format("the region hands on {} value{}, and 'yield' gives {}", region.carried,
                           region.carried == 1 ? "" : "s", values_.size()));
    return broken();
  }
  if (!resolve_values(
          values_,
          region.typed ? std::span<const isa::Type>(region.types) : std::span<const isa::Type>(),
          refs_))
    return broken();
  for (size_t i = 0; region.typed && i < refs_.size(); ++i)
    if (const isa::Type found = core_.build.type_of(refs_[i]); found != region.types[i]) {
      core_.fail(ErrorCode::YieldMismatch, values_[i].where,
                 fmt::format("value {} of the region is {}, and 'yield' gives {}", i + 1,
                             region.types[i].text(), found.text()));
      return broken();
    }
  if (const auto fault = core_.build.yield(refs_)) {
    core_.fail(fault->code, word, fault->message);
    region.broken = true;
    return Outcome::failed;
  }
  if (!region.typed) {
    region.types.clear();
    for (Ref ref : refs_) region.types.push_back(core_.build.type_of(ref));
    region.typed = true;
  }
  instructions_.keep_spellings(function_);
  return Outcome::done;
}

Outcome FunctionParser::close(const Token& brace) {
  Region region = std::move(regions_.back());
  regions_.pop_back();
  if (!region.yielded) {
    if (region.carried > 0) {
      if (!region.broken)
        core_.fail(
            ErrorCode::YieldMismatch, brace,
            fmt::format("the region of '{}' hands on {} value{} and ends without 'yield'",
                        mnemonic(region.opcode), region.carried, region.carried == 1 ? "" : "s"));
      region.broken = true;
    }
    (void)core_.build.yield({});
  }
  record(brace);
  scopes_.leave();
  if (region.opcode == Opcode::If && core_.stream.peek().is_word("else"))
    return open_else(std::move(region));
  if (region.opcode == Opcode::If && !region.names.empty() && !region.broken) {
    core_.fail(ErrorCode::Structure, region.opener, "an 'if' with results needs an 'else'");
    region.broken = true;
  }
  finish_region(region);
  return Outcome::done;
}

Outcome FunctionParser::open_else(Region region) {
  const Token word = core_.stream.next();
  if (!core_.expect(TokenKind::left_brace)) {
    finish_region(region);
    return Outcome::failed;
  }
  core_.build.open_else();
  record(word);
  region.opcode = Opcode::Else;
  region.opener = word;
  region.yielded = false;
  scopes_.enter();
  regions_.push_back(std::move(region));
  statements_.open_block(word);
  return Outcome::opened;
}

// Names the results of a region that has been closed.
void FunctionParser::finish_region(Region& region) {
  if (region.broken) {
    if (!regions_.empty()) regions_.back().broken = true;
    return instructions_.define_broken(region.names);
  }
  const Token& opener = region.opener;
  if (!instructions_.define_results(
          opener, mnemonic(region.opcode == Opcode::Else ? Opcode::If : region.opcode),
          region.names, region.results, {}))
    instructions_.define_broken(region.names);
}

void FunctionParser::abandon() {
  Region region = std::move(regions_.back());
  regions_.pop_back();
  if (!region.yielded) (void)core_.build.yield({});
  scopes_.leave();
  instructions_.define_broken(region.names);
}

}  // namespace trek::assembler
