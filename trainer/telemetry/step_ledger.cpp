#include "trainer/telemetry/step_ledger.h"

#include <xxhash.h>

#include <algorithm>
#include <string>
#include <utility>

#include "model/base/hex.h"
#include "model/base/json.h"
#include "trainer/telemetry/cut_lines.h"

namespace trireme {
namespace {

constexpr std::string_view kChain = ",\"chain\":\"", kEnd = "\"}";
constexpr std::size_t kDigits = 16;
constexpr std::size_t kTail = kChain.size() + kDigits + kEnd.size();

// Removes an incomplete last line.
std::uint64_t last_chain(const std::filesystem::path& path) {
  std::string last;
  take_over_lines(path, [&](std::string_view line) {
    last.assign(line);
    return true;
  });
  return chain_of(last).value_or(0);
}

}  // namespace

ChainedText chained(std::string object, std::uint64_t chain_before) {
  object.pop_back();  // the closing brace
  const std::uint64_t chain = XXH3_64bits_withSeed(object.data(), object.size(), chain_before);
  object.append(kChain).append(hex(chain)).append(kEnd);
  return {std::move(object), chain};
}

std::optional<std::uint64_t> chain_of(std::string_view text) {
  if (text.size() < kTail || !text.ends_with(kEnd)) return std::nullopt;
  const std::string_view tail = text.substr(text.size() - kTail);
  if (!tail.starts_with(kChain)) return std::nullopt;
  return from_hex<std::uint64_t>(tail.substr(kChain.size(), kDigits));
}

bool follows(std::string_view text, std::uint64_t chain_before) {
  const std::optional<std::uint64_t> chain = chain_of(text);
  return chain == XXH3_64bits_withSeed(text.data(), text.size() - std::min(kTail, text.size()),
                                       chain_before);
}

void json_fields(auto& f, LedgerBegin& begin) {
  f("begin", begin.why);
  f("incarnation", begin.incarnation);
  f("after", begin.after);
  f("weights", begin.weights);
  f("skip", begin.skip);
  f("data", begin.data);
  f("computation", begin.computation);
  if (!f.has("events", begin.events.has_value())) return;
  EventsMark& events = begin.events ? *begin.events : begin.events.emplace();
  f("events", events.lines);
  f.hex("events_chain", events.chain);
}

void json_fields(auto& f, LedgerStep& step) {
  f("step", step.step);
  f("incarnation", step.incarnation);
  f("samples", step.samples);
  f("left_out", step.left_out);
  f("sequences", step.sequences);
  f("tokens", step.tokens);
  f.hex("hash", step.hash);
  f.hex("loss", step.loss);
  f.hex("grad_norm", step.grad_norm);
  f.hex("lr", step.lr);
  f("attempts", step.attempts);
  f("products_chosen", step.products_chosen);
}

ChainedText ledger_text(const LedgerLine& line, std::uint64_t chain_before) {
  return std::visit(
      [&](const auto& some) {
        return chained(json_text<nlohmann::ordered_json>(some), chain_before);
      },
      line);
}

LedgerLine parse_ledger_line(std::string_view text) {
  nlohmann::json line = parse_json<DataError>(text, "");
  if (line.is_object()) line.erase("chain");
  if (line.contains("begin")) return json_value<LedgerBegin, DataError>(line, "");
  return json_value<LedgerStep, DataError>(line, "");
}

StepLedger::StepLedger(const std::filesystem::path& path, const LedgerBegin& begin)
    : chain_(last_chain(path)), file_(path) {
  write(begin);
  file_.sync();
}

void StepLedger::write(const LedgerLine& line) {
  ChainedText next = ledger_text(line, chain_);
  chain_ = next.chain;
  file_.append(std::move(next.text) + '\n');
}

}  // namespace trireme
