#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/base/file.h"
#include "parallel/comm/ledger_layout.h"

namespace trireme {

// A group as a ledger shows it.
struct LedgerGroup {
  std::string name;  // empty: none is in this place any more
  std::uint64_t key = 0;
  std::uint32_t size = 0;
  std::uint64_t begun = 0, finished = 0;  // collectives
};

// What a rank did last, as its ledger shows it: its own, or another process's, alive or not.
struct LedgerPage {
  ledger::Progress progress;
  std::vector<LedgerGroup> groups;  // by the number that calls give

  // The group it waits in; null where it does not wait.
  const LedgerGroup* group() const;
  ledger::Operation operation() const { return static_cast<ledger::Operation>(progress.operation); }
  ledger::Phase phase() const { return static_cast<ledger::Phase>(progress.phase); }
};
LedgerPage page_of(const ledger::Layout& layout);

// A ledger in a file, of a process that may still write it.
class LedgerReader {
 public:
  // Throws EnvironmentError when the file is no ledger of this version.
  explicit LedgerReader(const std::filesystem::path& path);

  ledger::Header header() const { return layout_->header.read().value; }
  LedgerPage page() const { return page_of(*layout_); }
  ledger::Ending ending() const { return static_cast<ledger::Ending>(layout_->ending.load()); }
  std::int64_t ended() const { return layout_->ended.load(std::memory_order_acquire); }
  // The newest calls, oldest first; one being written, or torn by a kill, is left out.
  std::vector<ledger::Call> calls() const;

 private:
  MappedFile file_;
  const ledger::Layout* layout_;
};

}  // namespace trireme
