#include "parallel/comm/ledger_reader.h"

#include <algorithm>

#include "model/base/error.h"

namespace trireme {
namespace {

template <std::size_t n>
std::string text_of(const std::array<char, n>& chars) {
  return {chars.begin(), std::find(chars.begin(), chars.end(), '\0')};
}

}  // namespace

const LedgerGroup* LedgerPage::group() const {
  const auto index = static_cast<std::size_t>(progress.group);
  if (operation() == ledger::Operation::kNone || progress.group < 0 || index >= groups.size()) {
    return nullptr;
  }
  return &groups[index];
}

LedgerPage page_of(const ledger::Layout& layout) {
  LedgerPage page;
  page.progress = layout.progress.read().value;
  for (const ledger::Group& group : layout.groups) {
    const ledger::GroupInfo info = group.info.read().value;
    page.groups.push_back({.name = text_of(info.name),
                           .key = info.key,
                           .size = info.size,
                           .begun = group.begun.load(std::memory_order_acquire),
                           .finished = group.finished.load(std::memory_order_acquire)});
  }
  while (!page.groups.empty() && page.groups.back().name.empty()) page.groups.pop_back();
  return page;
}

LedgerReader::LedgerReader(const std::filesystem::path& path) : file_(path) {
  if (file_.bytes().size() != sizeof(ledger::Layout)) {
    throw EnvironmentError(say(path.string(), ": not a flight recorder: ", file_.bytes().size(),
                               " bytes instead of ", sizeof(ledger::Layout)));
  }
  layout_ = reinterpret_cast<const ledger::Layout*>(file_.bytes().data());
  const ledger::Header start = header();
  if (start.magic != ledger::kMagic || start.version != ledger::kVersion) {
    throw EnvironmentError(
        say(path.string(), ": not a flight recorder of version ", ledger::kVersion));
  }
}

std::vector<ledger::Call> LedgerReader::calls() const {
  std::vector<ledger::Call> found;
  const std::uint64_t end = layout_->calls_begun.load(std::memory_order_acquire);
  for (std::uint64_t n = end < ledger::kCalls ? 0 : end - ledger::kCalls; n < end; ++n) {
    const auto seen = layout_->calls[n % ledger::kCalls].read();
    if (seen.whole && seen.version == 2 * n + 2) found.push_back(seen.value);
  }
  return found;
}

}  // namespace trireme
