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
#include "checkpoint/team.h"

namespace trireme::checkpoint {

// Adds to a manifest what follows from its tensors' checksums; may be null.
using AddDigests = std::function<void(Manifest&)>;

// What a rank gives to be stored. The pieces of all ranks together must cover every
// tensor they name; a piece that several ranks hold is stored once. Their memory must
// stand still until commit returns. All but the pieces is the leader's to say.
struct Snapshot {
  std::int64_t step = 0;
  std::vector<Piece> pieces;
  std::string config_toml;
  std::string tokenizer;  // its hash, or empty
  nlohmann::json data = nlohmann::json::object();
  nlohmann::json scalars = nlohmann::json::object();
  nlohmann::json digests = nlohmann::json::object();
  nlohmann::json layout = nlohmann::json::object();
  nlohmann::json versions = nlohmann::json::object();
  // Files that have to be on the disk before the checkpoint is: the leader's.
  std::vector<std::filesystem::path> after_files;
  AddDigests add_digests;
};

struct Committed {
  std::int64_t step = 0;
  std::filesystem::path folder;
  std::uint64_t bytes = 0;   // of the tensors, on all ranks together
  double write_seconds = 0;  // until the last rank's shard was on the disk, without reading back
};

struct Loaded {
  std::int64_t step = 0;
  std::filesystem::path folder;
  Manifest manifest;
  std::vector<std::string> rejected;  // why newer checkpoints were not taken
  double seconds = 0;                 // that reading and checking it took
};

// The checkpoints of one run folder, with the run's identity in the file `run` beside
// them. Without a lease it only reads.
class Store {
 public:
  explicit Store(std::filesystem::path run_dir);
  // For the writer: also removes what crashed writers left behind. The lease must
  // outlive the store.
  Store(std::filesystem::path run_dir, const Lease& lease)
      : Store(std::move(run_dir), &lease, {}) {}
  // For the ranks of a team, of which the leader has the lease and the others null. Every
  // rank makes each of the calls below that says so.
  Store(std::filesystem::path run_dir, const Lease* lease, Team team);

  // All ranks: writes `snapshot` as checkpoints/step-NNNNNNNN. When it returns, the checkpoint
  // is on disk, was read back and is named by `latest`. On failure nothing of it is
  // left, the earlier checkpoints are as they were, and an EnvironmentError (disk,
  // machine) or CheckpointError (what was read back differs) says why.
  Committed commit(const Snapshot& snapshot);

  // The same in parts, for a Saver, which does what takes long in processes of its own.
  struct Commit {
    std::int64_t step = 0;
    std::filesystem::path path;                  // where the shards go
    std::unique_ptr<PartialCheckpoint> partial;  // the leader's
    double write_seconds = 0;
  };
  // All ranks: finds room and makes the folder for the shards.
  Commit begin(std::int64_t step, const Division& division);
  // All ranks, with what each reports: what the leader makes the manifest of.
  static std::vector<WrittenShard> written(Commit& commit, const std::vector<std::string>& reports);
  // The leader: the manifest without its view.
  Manifest assembled(const Snapshot& snapshot, const Division& division,
                     const std::vector<WrittenShard>& shards) const;
  // All ranks, once it is published.
  Committed end(const Commit& commit, const Division& division);

  // All ranks: fills `wanted` from the newest good checkpoint; nullopt when there is none at
  // all. Damaged ones are skipped with their reason in `rejected`; when all are
  // damaged it throws CheckpointError with the reasons. A checkpoint of another
  // model is no damage: CheckpointError with every difference, at once.
  std::optional<Loaded> load_newest(std::span<const Piece> wanted, Match match = Match::kAll);
  // The same for one step, with no way back.
  Loaded load_step(std::int64_t step, std::span<const Piece> wanted, Match match = Match::kAll);

  // All ranks: of the newest checkpoint with a readable manifest; nullopt when there is none.
  std::optional<Lineage> newest() const;
  // What a commit, or a snapshot in memory, of `snapshot` would say of itself, but for files
  // and tensors.
  Manifest described(const Snapshot& snapshot) const;
  // All ranks: the state was filled from `snapshot`, of this run, by others than this store.
  void go_on_from(const Manifest& snapshot);

  // Newest first: by lineage, unreadable ones where their step puts them.
  std::vector<Summary> list() const;

  // Removes the surplus, oldest first, and returns the steps removed. Counts only
  // checkpoints whose every byte was verified; never removes one of those it counts.
  std::vector<std::int64_t> prune(const Retention& retention);
  // The steps known to be good, by this process and those that prune for it.
  const std::set<std::int64_t>& good() const { return good_; }
  void set_good(std::set<std::int64_t> steps) { good_ = std::move(steps); }

  // Throws CheckpointError when the right to write here is gone.
  void require_lease() const;
  bool holds_lease() const { return lease_ != nullptr && lease_->held(); }
  const Team& team() const { return team_; }

  const std::filesystem::path& run_dir() const { return run_dir_; }
  std::filesystem::path folder() const { return run_dir_ / "checkpoints"; }
  // The identity all checkpoints of this folder share; empty for a reader of a folder
  // without any.
  const std::string& run() const { return run_; }

 private:
  // `of_all`: what each rank wants, without memory.
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
  std::optional<std::int64_t> parent_;  // loaded or committed last
  std::int64_t sequence_ = 0;           // of the next commit
  std::set<std::int64_t> good_;         // steps this process has verified byte by byte
};

// For commands that take RUN_OR_CHECKPOINT: the folder of one checkpoint is itself,
// a run folder stands for its newest checkpoint with a readable manifest. Throws
// CheckpointError when there is none.
std::filesystem::path newest_checkpoint(const std::filesystem::path& run_or_checkpoint);

// Fills `wanted` from a checkpoint, or from a run folder's newest good one.
Loaded load_from(const std::filesystem::path& run_or_checkpoint, std::span<const Piece> wanted,
                 Match match = Match::kSubset);

}  // namespace trireme::checkpoint
