#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/piece.h"
#include "checkpoint/read/load.h"
#include "checkpoint/store/lease.h"
#include "checkpoint/store/retention.h"
#include "parallel/comm/team.h"

namespace trireme::checkpoint {

// The checkpoints of one run folder; the run's identity is in its file `run`. Read-only without a
// lease; a Saver writes them.
class Store {
 public:
  explicit Store(std::filesystem::path run_dir);
  // For the writer: also removes leftovers of crashed writers. The lease outlives the store.
  Store(std::filesystem::path run_dir, const Lease& lease)
      : Store(std::move(run_dir), &lease, {}) {}
  // For the ranks of a team: the leader passes the lease, the others null. Calls marked
  // "collective" are made by every rank.
  Store(std::filesystem::path run_dir, const Lease* lease, Team team);

  // Collective: fills `wanted` from the newest valid checkpoint; nullopt if there are no
  // checkpoints. Damaged ones are skipped, with the reason in `rejected`; throws CheckpointError
  // with all reasons if all are damaged. A checkpoint of a different model is not damaged: throws
  // MismatchError with all differences.
  std::optional<Loaded> load_newest(std::span<const Piece> wanted,
                                    const Match& match = Match::kAll);
  // Same for one step, without fallback.
  Loaded load_step(std::int64_t step, std::span<const Piece> wanted,
                   const Match& match = Match::kAll);

  // Collective: lineage of the newest checkpoint with a readable manifest; nullopt if there is
  // none.
  std::optional<Lineage> newest() const;
  // `manifest` as that of the next commit: with the run, its lineage and the time.
  Manifest stamped(Manifest manifest) const;
  // Collective: declares that `step` was committed; `good`: the steps verified so far.
  void set_committed(std::int64_t step, std::set<std::int64_t> good);
  // Collective: declares that the state was loaded from `snapshot`, of this run, by someone else.
  void go_on_from(const Manifest& snapshot);

  // Newest first by lineage; unreadable checkpoints are ordered by their step.
  std::vector<Summary> list() const { return list_checkpoints(folder()); }
  // Removes surplus checkpoints, oldest first, and returns their steps. Only checkpoints whose
  // every byte was verified count as kept, and those are never removed.
  std::vector<std::int64_t> prune(const Retention& retention);
  // Steps verified by this process, or by those that prune for it.
  const std::set<std::int64_t>& good() const { return good_; }

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
              std::span<const std::vector<Piece>> of_all, const Match& match);
  void fill(const std::filesystem::path& from, const Manifest& manifest,
            std::span<const Piece> wanted, std::span<const std::vector<Piece>> of_all,
            const Match& match) const;
  std::vector<std::filesystem::path> candidates() const;  // newest first
  void identify();

  std::filesystem::path run_dir_;
  const Lease* lease_ = nullptr;
  Team team_;
  std::string run_;
  std::optional<std::int64_t> parent_;  // last loaded or committed step
  std::int64_t sequence_ = 0;           // of the next commit
  std::set<std::int64_t> good_;
};

bool is_checkpoint(const std::filesystem::path& folder);

// For commands that take RUN_OR_CHECKPOINT: a checkpoint folder stands for itself, a run folder for
// its newest checkpoint with a readable manifest. Throws CheckpointError if there is none.
std::filesystem::path newest_checkpoint(const std::filesystem::path& run_or_checkpoint);

// Fills `wanted` from a checkpoint, or from the newest valid one of a run folder.
Loaded load_from(const std::filesystem::path& run_or_checkpoint, std::span<const Piece> wanted,
                 const Match& match = Match::kSubset);

}  // namespace trireme::checkpoint
