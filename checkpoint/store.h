#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/catalogue.h"
#include "checkpoint/lease.h"
#include "checkpoint/manifest.h"
#include "checkpoint/piece.h"
#include "checkpoint/team.h"

namespace trireme::checkpoint {

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
};

struct Committed {
  std::filesystem::path folder;
  std::uint64_t bytes = 0;  // of the tensors, on all ranks together
};

struct Loaded {
  std::int64_t step = 0;
  std::filesystem::path folder;
  Manifest manifest;
  std::vector<std::string> rejected;  // why newer checkpoints were not taken
};

// One committed checkpoint as seen from outside.
struct Summary {
  std::int64_t step = 0;
  std::filesystem::path folder;
  std::optional<Manifest> manifest;  // absent when it cannot be read
  std::string problem;               // why
};

struct Retention {
  int keep_latest = 2;          // at least 2
  std::int64_t keep_every = 0;  // steps divisible by it are kept for ever; 0: none
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

  const std::filesystem::path& run_dir() const { return run_dir_; }
  std::filesystem::path folder() const { return run_dir_ / "checkpoints"; }
  // The identity all checkpoints of this folder share; empty for a reader of a folder
  // without any.
  const std::string& run() const { return run_; }

 private:
  // What all ranks want together, without memory: what a checkpoint has to match.
  std::vector<Piece> wanted_by_all(std::span<const Piece> wanted) const;
  Loaded load(const std::filesystem::path& folder, std::span<const Piece> wanted,
              std::span<const Piece> of_all, Match match);
  std::vector<std::filesystem::path> candidates() const;  // newest first
  void identify();
  const Lease& lease() const;
  bool verified(const Summary& summary);

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
