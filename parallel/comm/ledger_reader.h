#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "model/base/file.h"
#include "parallel/comm/ledger_layout.h"

namespace trireme {

// A group as read from a flight recorder.
struct LedgerGroup {
  std::string name;  // empty: unused slot
  std::uint64_t key = 0;
  std::uint32_t size = 0;
  std::uint64_t begun = 0, finished = 0;  // collectives
};

// Last recorded activity of a rank: of this process or of another one, alive or dead.
struct LedgerPage {
  ledger::Progress progress;
  std::vector<LedgerGroup> groups;  // indexed by the group number of calls

  // The group of the pending call; null if there is none.
  const LedgerGroup* group() const;
  ledger::Operation operation() const { return static_cast<ledger::Operation>(progress.operation); }
  ledger::Phase phase() const { return static_cast<ledger::Phase>(progress.phase); }
};
LedgerPage page_of(const ledger::Layout& layout);

// Reads the flight-recorder file of a process that may still write it.
class LedgerReader {
 public:
  // Throws EnvironmentError if the file is not a flight recorder of this version.
  explicit LedgerReader(const std::filesystem::path& path);

  ledger::Header header() const { return layout_->header.read().value; }
  LedgerPage page() const { return page_of(*layout_); }
  ledger::Ending ending() const { return static_cast<ledger::Ending>(layout_->ending.load()); }
  std::int64_t ended() const { return layout_->ended.load(std::memory_order_acquire); }
  // The last calls, oldest first, without those that are incomplete because of a concurrent write
  // or a kill.
  std::vector<ledger::Call> calls() const;

 private:
  MappedFile file_;
  const ledger::Layout* layout_;
};

}  // namespace trireme
