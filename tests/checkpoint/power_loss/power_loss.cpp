// power_loss LOG ROOT RUN SCRATCH SEED: from the operations of a run in the folder RUN below ROOT,
// builds what a power cut may leave at any moment, below SCRATCH, and loads from each: always a
// good checkpoint, none older than the last that was told as committed, and its very bytes.
#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <unordered_set>

#include "checkpoint/store/store.h"
#include "model/base/error.h"
#include "tests/checkpoint/power_loss/disk.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;
using file_faults::Kind;

// Memory for all tensors of a checkpoint, whole.
class Memory {
 public:
  explicit Memory(const Manifest& manifest) {
    for (const StoredTensor& tensor : manifest.tensors) {
      bytes_.emplace_back(tensor.bytes());
      pieces_.push_back({tensor.name, tensor.dtype, tensor.shape, placement(tensor.shape, {}),
                         bytes_.back().data()});
    }
  }
  const std::vector<Piece>& pieces() const { return pieces_; }
  const std::vector<std::vector<std::byte>>& bytes() const { return bytes_; }

 private:
  std::vector<std::vector<std::byte>> bytes_;
  std::vector<Piece> pieces_;
};

// A folder that is made to hold what was found after a crash.
class Copy {
 public:
  explicit Copy(fs::path folder) : folder_(std::move(folder)) { forget(); }

  void become(const Disk::Found& found) {
    std::vector<std::string> gone;
    for (const auto& [path, bytes] : held_) {
      if (!found.contains(path)) gone.push_back(path);
    }
    for (const std::string& path : gone) {
      fs::remove_all(folder_ / path);
      held_.erase(path);
    }
    for (const auto& [path, bytes] : found) {
      const auto held = held_.find(path);
      if (held != held_.end() && held->second == bytes) continue;
      if (!bytes) {
        fs::create_directory(folder_ / path);
      } else {
        std::ofstream(folder_ / path, std::ios::binary) << *bytes;
      }
      held_[path] = bytes;
    }
  }
  // Somebody else has written into it.
  void forget() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    held_.clear();
  }
  const fs::path& folder() const { return folder_; }

 private:
  fs::path folder_;
  Disk::Found held_;
};

struct Reference {
  std::int64_t step;
  std::vector<std::vector<std::byte>> bytes;
};

class Check {
 public:
  Check(const std::vector<std::string>& arguments)
      : operations_(read_operations(arguments[0])),
        root_(arguments[1]),
        run_(arguments[2]),
        copy_(arguments[3]),
        random_(std::stoul(arguments[4])) {}

  void collect_references() {
    Disk disk(root_);
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      disk.apply(operations_[i]);
      if (!tells_of_a_commit(operations_[i])) continue;
      copy_.become(disk.after_crash([](std::size_t) { return true; }, false));
      Store store(copy_.folder() / run_);
      identity_ = store.run();
      if (!memory_) memory_.emplace(*store.list().front().manifest);
      const auto loaded = store.load_newest(memory_->pieces());
      require(loaded.has_value(), "nothing is there after operation ", i);
      told_[i] = loaded->manifest.sequence;
      references_[loaded->manifest.sequence] = {loaded->step, memory_->bytes()};
    }
    require(references_.size() >= 5, "only ", references_.size(), " commits in the log");
  }

  void try_all() {
    Disk disk(root_);
    std::optional<std::int64_t> told;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      disk.apply(operations_[i]);
      if (told_.contains(i)) told = told_[i];
      // Among the many writes of a shard one moment is much like another.
      const bool of_many = operations_[i].kind == Kind::kWrite && !told_.contains(i);
      if (!of_many || random_() % 8 == 0) try_crashes(disk, told, i);
    }
    fmt::print(
        "{} operations, {} commits; {} different states, of which {} gave the newest "
        "commit that was told, {} a newer one and {} none as none had been told\n",
        operations_.size(), references_.size(), seen_.size(), as_told_, newer_, none_);
    require(seen_.size() >= 500, "only ", seen_.size(), " states");
    require(as_told_ > 0 && newer_ > 0 && none_ > 0, "too few kinds of states");
  }

 private:
  bool tells_of_a_commit(const Operation& operation) const {
    return operation.kind == Kind::kWrite &&
           operation.path == root_ + "/" + run_ + "/events.jsonl" &&
           operation.bytes.find("\"event\":\"checkpoint\"") != std::string::npos;
  }

  void try_crashes(const Disk& disk, std::optional<std::int64_t> told, std::size_t at) {
    const std::size_t pending = disk.pending();
    const auto attempt = [&](const Disk::Survives& survives, const std::string& what) {
      for (const bool lengths : {false, true}) {
        const Disk::Found found = disk.after_crash(survives, lengths);
        // The same files may be right before a commit was told of and wrong after.
        if (seen_.insert(hash_of(found) + static_cast<std::size_t>(told.value_or(-1))).second) {
          try_state(found, told,
                    fmt::format("a crash after operation {} ({} {}), of {} changes {}", at,
                                static_cast<int>(operations_[at].kind), operations_[at].path,
                                pending, what));
        }
      }
    };
    attempt([](std::size_t) { return true; }, "all survive");
    attempt([](std::size_t) { return false; }, "none survives");
    constexpr int kSingles = 1, kSubsets = 1;
    for (int i = 0; i < kSingles && pending > 1; ++i) {
      const std::size_t one = random_() % pending;
      attempt([&](std::size_t n) { return n == one; }, fmt::format("{} alone survives", one));
      attempt([&](std::size_t n) { return n != one; }, fmt::format("{} alone is lost", one));
    }
    for (int i = 0; i < kSubsets && pending > 2; ++i) {
      std::vector<bool> kept(pending);
      for (std::size_t n = 0; n < pending; ++n) kept[n] = random_() % 2 != 0;
      attempt([&](std::size_t n) { return kept[n]; }, "some survive");
    }
  }

  static std::size_t hash_of(const Disk::Found& found) {
    std::size_t hash = 0;
    for (const auto& [path, bytes] : found) {
      for (const std::size_t part :
           {std::hash<std::string>{}(path), bytes ? std::hash<std::string>{}(*bytes) : 1}) {
        hash = hash * 0x9e3779b97f4a7c15u + part;
      }
    }
    return hash;
  }

  void try_state(const Disk::Found& found, std::optional<std::int64_t> told,
                 const std::string& what) {
    copy_.become(found);
    const fs::path run = copy_.folder() / run_;
    try {
      const auto loaded = Store(run).load_newest(memory_->pieces());
      if (!loaded) {
        require(!told, "nothing is found");
        ++none_;
        return;
      }
      require(loaded->rejected.empty(),
              "rejected: ", loaded->rejected.empty() ? "" : loaded->rejected[0]);
      const std::int64_t sequence = loaded->manifest.sequence;
      const auto reference = references_.find(sequence);
      require(reference != references_.end(), "commit ", sequence, " is not one of the run's");
      require(!told || sequence >= *told, "commit ", sequence, " is found, ", *told,
              " was told of");
      require(loaded->step == reference->second.step && memory_->bytes() == reference->second.bytes,
              "step ", loaded->step, " has other bytes than were committed");
      ++(told && sequence == *told ? as_told_ : newer_);
      check_curve(found, loaded->step);
      if (random_() % 8 == 0) take_over(run);
    } catch (const std::exception& error) {
      throw Error(what + ": " + error.what());
    }
  }

  // The run goes on after the loaded step and does not write those before again; unless the ledger
  // says that it was taken back to an older one.
  void check_curve(const Disk::Found& found, std::int64_t step) const {
    const auto metrics = found.find(run_ + "/metrics.jsonl");
    require(metrics != found.end(), "metrics.jsonl is lost");
    const auto lines = std::count(metrics->second->begin(), metrics->second->end(), '\n');
    const Start start = last_start(found);
    const bool may_be_older = step <= start.told_before;  // than that start
    const std::int64_t least = may_be_older ? std::min(step, start.after) : step;
    require(lines >= least, "metrics.jsonl has ", lines, " lines at step ", step);
  }

  struct Start {
    std::int64_t after = 0;        // the step it goes on from
    std::int64_t told_before = 0;  // the newest step of those before it
  };
  // By the ledger, which is on the disk before what it tells of.
  Start last_start(const Disk::Found& found) const {
    const auto ledger = found.find(run_ + "/ledger.jsonl");
    require(ledger != found.end(), "ledger.jsonl is lost");
    std::istringstream lines(std::string(ledger->second->begin(), ledger->second->end()));
    Start start;
    std::int64_t told = 0;
    for (std::string line; std::getline(lines, line);) {
      const auto number_at = [&](const std::string& key) {
        const std::size_t at = line.find(key);
        return at == std::string::npos ? -1 : std::strtoll(&line[at + key.size()], nullptr, 10);
      };
      const bool begins = line.starts_with("{\"begin\":");
      if (begins) start = {number_at("\"after\":"), told};
      if (!begins) told = std::max<std::int64_t>(told, number_at("\"step\":"));
    }
    return start;
  }

  // The next writer is the same run, and nothing stays that was being written.
  void take_over(const fs::path& run) {
    {
      const Lease lease(run);
      const Store store(run, lease);
      require(store.run() == identity_, "the run takes itself for another");
      for (const auto& entry : fs::directory_iterator(store.folder())) {
        const std::string name = entry.path().filename();
        require(name == "run" || name == "latest" || name.starts_with("step-"), name, " is left");
      }
    }
    copy_.forget();
  }

  std::vector<Operation> operations_;
  std::string root_, run_;
  Copy copy_;
  std::mt19937_64 random_;
  std::string identity_;
  std::optional<Memory> memory_;
  std::map<std::size_t, std::int64_t> told_;  // by operation: the commit it tells of
  std::map<std::int64_t, Reference> references_;
  std::unordered_set<std::size_t> seen_;
  std::size_t as_told_ = 0, newer_ = 0, none_ = 0;
};

}  // namespace
}  // namespace trireme::checkpoint

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    trireme::require(arguments.size() == 5, "usage: power_loss LOG ROOT RUN SCRATCH SEED");
    trireme::checkpoint::Check check(arguments);
    check.collect_references();
    check.try_all();
  } catch (const std::exception& error) {
    fmt::print("power_loss: {}\n", error.what());
    return 1;
  }
  return 0;
}
