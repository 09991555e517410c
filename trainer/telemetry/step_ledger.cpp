#include "trainer/telemetry/step_ledger.h"

#include <string>

#include "model/base/json.h"
#include "trainer/telemetry/cut_lines.h"

namespace trireme {
namespace {

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
