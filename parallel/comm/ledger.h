#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/ledger_reader.h"

namespace trireme {

// What a rank writes down of itself while it works: its place in the step, and every call
// to a communicator. It lies in the process's own memory until keep_in() names a file, and
// from then on in that file's pages, which outlive the process however it ends. Writing
// costs some tens of nanoseconds and no system call. One thread writes at a time; any
// process may read meanwhile (LedgerReader).
class Ledger {
 public:
  using Phase = ledger::Phase;
  using Operation = ledger::Operation;

  Ledger();
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;
  ~Ledger();

  // Whose it is; once, first.
  void begin(int rank, int ranks, const std::string& host);
  // Moves it into a new file, instead of an older one of that name. Throws
  // EnvironmentError, and stays where it is, when there is no room.
  void keep_in(const std::filesystem::path& path);
  // Where it is kept; empty before. From any thread.
  std::filesystem::path file() const {
    return is_kept_.load(std::memory_order_acquire) ? file_ : std::filesystem::path();
  }

  // Told, on the thread that writes, of each phase and each call that is entered. It may throw:
  // what was entered then stays so.
  using Observer = std::function<void(const ledger::Progress&)>;
  void observe(Observer observer) { observer_ = std::move(observer); }

  void enter(Phase phase);  // leaves micro-batch and layer
  void set_step(std::int64_t step);
  void set_micro_batch(int micro_batch);
  void set_layer(int layer);  // counted over the whole model

  // A group of these ranks of the world; returns its number, for calls.
  int add_group(const std::string& name, const std::vector<int>& members);
  // Its place may be taken by another.
  void remove_group(int group);

  // A call entered here; a message's counterpart `peer` is a rank of the world.
  struct Entry {
    std::uint64_t number = 0;
    ledger::Call call;
  };
  Entry begin_collective(int group, Operation operation, std::uint64_t bytes);
  Entry start_message(int group, Operation operation, std::uint64_t bytes, int peer);
  // The call this rank is in goes on while it does other work, until it waits for it.
  void leave();
  void wait_for(const Entry& entry);
  // A call that fails is never ended. `at`: when it ended, where that was before now.
  void end(const Entry& entry, std::int64_t at = 0);

  // How the rank ends; the first word counts. From any thread.
  void close(ledger::Ending ending);

  // From any thread.
  LedgerPage page() const { return page_of(*layout_); }

 private:
  Entry enter_call(int group, Operation operation, std::uint64_t sequence, std::uint64_t bytes,
                   int peer);
  void wait_in(const ledger::Call& call);
  void publish();

  ledger::Layout* layout_;
  ledger::Progress progress_;
  Observer observer_;
  std::filesystem::path file_;
  std::atomic<bool> is_kept_ = false;
};

// "rank-00003", in the folder of a run's ledgers.
std::string ledger_file_name(int rank);

// Nanoseconds of CLOCK_MONOTONIC, as ledgers give them.
std::int64_t ledger_now();

}  // namespace trireme
