#include "trainer/telemetry/step_ledger.h"

#include <string>

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
