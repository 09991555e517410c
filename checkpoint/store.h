#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/catalogue.h"
#include "checkpoint/commit.h"
#include "checkpoint/division.h"
#include "checkpoint/lease.h"
#include "checkpoint/manifest.h"
#include "checkpoint/piece.h"
#include "checkpoint/retention.h"
#include "parallel/comm/team.h"

namespace trireme::checkpoint {

// Adds digests derived from the tensors' checksums to a manifest; may be null.
using AddDigests = std::function<void(Manifest&)>;

// What a rank stores. The pieces of all ranks together cover every tensor they name; a piece held
// by several ranks is stored once. Their memory must not change until commit returns. Fields other
// than the pieces are read from the leader only.
struct Snapshot {
  std::int64_t step = 0;
  std::vector<Piece> pieces;
  std::string config_toml;
  std::string tokenizer;  // hash of the tokenizer; may be empty
  nlohmann::json data = nlohmann::json::object();
  nlohmann::json scalars = nlohmann::json::object();
  nlohmann::json digests = nlohmann::json::object();
  nlohmann::json layout = nlohmann::json::object();
  nlohmann::json versions = nlohmann::json::object();
  // Files that must be on disk before the commit; the leader's.
  std::vector<std::filesystem::path> after_files;
  AddDigests add_digests;
};

struct Committed {
  std::int64_t step = 0;
  std::filesystem::path folder;
  std::uint64_t bytes = 0;   // of the tensors, over all ranks
  double write_seconds = 0;  // until the last rank's shard was on disk, without reading back
};

struct Loaded {
  std::int64_t step = 0;
  std::filesystem::path folder;
  Manifest manifest;
  std::vector<std::string> rejected;  // reasons for skipping newer checkpoints
  double seconds = 0;                 // time for reading and verification
};

// The checkpoints of one run folder; the run's identity is in its file `run`. Read-only without a
// lease.
class Store {
 public:
  explicit Store(std::filesystem::path run_dir);
  // For the writer: also removes leftovers of crashed writers. The lease outlives the store.
  Store(std::filesystem::path run_dir, const Lease& lease)
      : Store(std::move(run_dir), &lease, {}) {}
  // For the ranks of a team: the leader passes the lease, the others null. Calls marked
  // "collective" are made by every rank.
  Store(std::filesystem::path run_dir, const Lease* lease, Team team);

  // Collective: writes `snapshot` as checkpoints/step-NNNNNNNN. On return the checkpoint is on
  // disk, was read back and is named by `latest`. On failure nothing of it remains, earlier
  // checkpoints are intact, and it throws EnvironmentError (disk, machine) or CheckpointError (read
  // back differently).
  Committed commit(const Snapshot& snapshot);

  // The phases of commit(), for a Saver, which runs the long ones in other processes.
  struct Commit {
    std::int64_t step = 0;
    std::filesystem::path path;                  // folder of the shards
    std::unique_ptr<PartialCheckpoint> partial;  // on the leader
    double write_seconds = 0;
  };
  // Collective: checks the space and creates the folder for the shards.
  Commit begin(std::int64_t step, const Division& division);
  // Collective, with each rank's report: input of the leader's manifest.
  static std::vector<WrittenShard> written(Commit& commit, const std::vector<std::string>& reports);
  // Leader only: the manifest without its view.
  Manifest assembled(const Snapshot& snapshot, const Division& division,
                     const std::vector<WrittenShard>& shards) const;
  // Collective, after publish().
  Committed end(const Commit& commit, const Division& division);

  // Collective: fills `wanted` from the newest valid checkpoint; nullopt if there are no
  // checkpoints. Damaged ones are skipped, with the reason in `rejected`; throws CheckpointError
  // with all reasons if all are damaged. A checkpoint of a different model is not damaged: throws
  // MismatchError with all differences.
  std::optional<Loaded> load_newest(std::span<const Piece> wanted, Match match = Match::kAll);
  // Same for one step, without fallback.
  Loaded load_step(std::int64_t step, std::span<const Piece> wanted, Match match = Match::kAll);

  // Collective: lineage of the newest checkpoint with a readable manifest; nullopt if there is
  // none.
  std::optional<Lineage> newest() const;
  // The manifest of a commit or an in-memory snapshot of `snapshot`, without files and tensors.
  Manifest described(const Snapshot& snapshot) const;
  // Collective: declares that the state was loaded from `snapshot`, of this run, by someone else.
  void go_on_from(const Manifest& snapshot);

  // Newest first by lineage; unreadable checkpoints are ordered by their step.
  std::vector<Summary> list() const;

  // Removes surplus checkpoints, oldest first, and returns their steps. Only checkpoints whose
  // every byte was verified count as kept, and those are never removed.
  std::vector<std::int64_t> prune(const Retention& retention);
  // Steps verified by this process, or by those that prune for it.
  const std::set<std::int64_t>& good() const { return good_; }
  void set_good(std::set<std::int64_t> steps) { good_ = std::move(steps); }

  // Throws CheckpointError if the lease is lost.
  void require_lease() const;
  bool holds_lease() const { return lease_ != nullptr && lease_->held(); }
  const Team& team() const { return team_; }

  const std::filesystem::path& run_dir() const { return run_dir_; }
  std::filesystem::path folder() const { return run_dir_ / "checkpoints"; }
  // The run's identity, shared by all checkpoints of this folder; empty for a reader of an empty
  // folder.
  const std::string& run() const { return run_; }

 private:
  // `of_all`: the wanted pieces of each rank, without memory.
  Loaded load(const std::filesystem::path& folder, std::span<const Piece> wanted,
              std::span<const std::vector<Piece>> of_all, Match match);
  void fill(const std::filesystem::path& from, const Manifest& manifest,
            std::span<const Piece> wanted, std::span<const std::vector<Piece>> of_all) const;
  std::vector<std::filesystem::path> candidates() const;  // newest first
  void identify();

  std::filesystem::path run_dir_;
  const Lease* lease_ = nullptr;
  Team team_;
  std::string run_;
  std::optional<std::int64_t> parent_;  // last loaded or committed step
  std::int64_t sequence_ = 0;           // of the next commit
  std::set<std::int64_t> good_;         // steps that this process has verified byte by byte
};

// For commands that take RUN_OR_CHECKPOINT: a checkpoint folder stands for itself, a run folder for
// its newest checkpoint with a readable manifest. Throws CheckpointError if there is none.
std::filesystem::path newest_checkpoint(const std::filesystem::path& run_or_checkpoint);

// Fills `wanted` from a checkpoint, or from the newest valid one of a run folder.
Loaded load_from(const std::filesystem::path& run_or_checkpoint, std::span<const Piece> wanted,
                 Match match = Match::kSubset);

}  // namespace trireme::checkpoint
