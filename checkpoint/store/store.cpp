#include "checkpoint/store/store.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <sstream>
#include <utility>

#include "checkpoint/format/names.h"
#include "checkpoint/store/commit.h"
#include "checkpoint/write/division.h"
#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRun = "run";

std::string table(const std::vector<std::string>& reasons) {
  std::string text;
  for (const std::string& reason : reasons) text += "\n  " + reason;
  return text;
}

}  // namespace

Store::Store(fs::path run_dir) : run_dir_(std::move(run_dir)) {
  identify();
}

Store::Store(fs::path run_dir, const Lease* lease, Team team)
    : run_dir_(std::move(run_dir)), lease_(lease), team_(team) {
  run_ = team_.led([&] {
    make_folders(folder());
    sweep_leftovers(folder());
    sweep_leftovers(run_dir_);
    identify();
    if (run_.empty()) run_ = new_uuid();
    replace_text(folder() / kRun, run_ + "\n");
    return run_;
  });
}

// The file `run` has the identity. If it matches none of the checkpoints it is damaged or of
// another run: then the newest checkpoint's identity is used.
void Store::identify() {
  std::string told;
  try {
    told = read_text(folder() / kRun, 4096);
    if (!told.empty() && told.back() == '\n') told.pop_back();
    if (!is_uuid(told)) told.clear();
  } catch (const EnvironmentError&) {
    // Missing, or not a file of ours.
  }
  std::string newest;
  bool fits = false;
  for (const Summary& summary : list()) {
    if (!summary.manifest) {
      fits = true;  // as far as can be determined
      continue;
    }
    if (newest.empty()) newest = summary.manifest->run;
    fits = fits || summary.manifest->run == told;
    sequence_ = std::max(sequence_, summary.manifest->sequence + 1);
  }
  run_ = told.empty() || (!fits && !newest.empty()) ? newest : told;
}

void Store::require_lease() const {
  require(lease_ != nullptr, "only the holder of a lease may write ", run_dir_.string());
  if (lease_->held()) return;
  throw CheckpointError(say(run_dir_.string(), ": this process has lost its lease: LEASE.json ",
                            "was removed or now belongs to another run"));
}

Manifest Store::stamped(Manifest manifest) const {
  manifest.run = run_;
  manifest.parent = parent_;
  manifest.sequence = sequence_;
  manifest.written = now_text();
  return manifest;
}

void Store::set_committed(std::int64_t step, std::set<std::int64_t> good) {
  good_ = std::move(good);
  parent_ = step;
  ++sequence_;
}

std::optional<Lineage> Store::newest() const {
  const std::string text = team_.led([&] {
    for (const Summary& summary : list()) {
      if (!summary.manifest) continue;
      const Lineage lineage = summary.manifest->lineage();
      return say(lineage.sequence, " ", lineage.step);
    }
    return std::string();
  });
  if (text.empty()) return std::nullopt;
  Lineage lineage;
  std::istringstream(text) >> lineage.sequence >> lineage.step;
  return lineage;
}

void Store::go_on_from(const Manifest& snapshot) {
  parent_ = snapshot.parent;
  sequence_ = std::max(sequence_, snapshot.sequence);
}

// Collective. The ranks of a host share the reads.
void Store::fill(const fs::path& from, const Manifest& manifest, std::span<const Piece> wanted,
                 std::span<const std::vector<Piece>> of_all, const Match& match) const {
  const std::unique_ptr<HostPeers> host = team_.host_peers(shared_bytes());
  team_.together([&] {
    if (!host) {
      load_pieces(from, manifest, wanted, {.subset = true, .optional = match.optional});
      return;
    }
    std::vector<std::span<const Piece>> of_host;
    for (const int rank : host->ranks()) {
      of_host.push_back(rank == team_.rank() ? wanted : of_all[static_cast<std::size_t>(rank)]);
    }
    load_together(from, manifest, of_host, *host);
  });
}

Loaded Store::load(const fs::path& from, std::span<const Piece> wanted,
                   std::span<const std::vector<Piece>> of_all, const Match& match) {
  const auto start = std::chrono::steady_clock::now();
  Loaded loaded{0, from, {}, {}};
  team_.together([&] {
    loaded.manifest = read_manifest(from);
    if (!run_.empty() && loaded.manifest.run != run_) {
      throw CheckpointError(say(from.string(), ": it belongs to run ", loaded.manifest.run,
                                ", this folder to run ", run_));
    }
    check_match(loaded.manifest, joined(of_all), match, from.string());
    check_files(from, loaded.manifest);
  });
  fill(from, loaded.manifest, wanted, of_all, match);
  loaded.step = loaded.manifest.step;
  loaded.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  good_.insert(loaded.step);
  parent_ = loaded.step;
  return loaded;
}

std::vector<fs::path> Store::candidates() const {
  const std::string names = team_.led([&] {
    std::string text;
    for (const Summary& summary : list()) text += summary.folder.filename().string() + "\n";
    return text;
  });
  std::vector<fs::path> folders;
  std::istringstream lines(names);
  for (std::string name; std::getline(lines, name);) folders.push_back(folder() / name);
  return folders;
}

std::optional<Loaded> Store::load_newest(std::span<const Piece> wanted, const Match& match) {
  const std::vector<fs::path> folders = candidates();
  if (folders.empty()) return std::nullopt;
  const std::vector<std::vector<Piece>> of_all = pieces_of_all(team_, wanted);
  std::vector<std::string> rejected;
  for (const fs::path& from : folders) {
    try {
      Loaded loaded = load(from, wanted, of_all, match);
      loaded.rejected = std::move(rejected);
      return loaded;
    } catch (const MismatchError&) {
      throw;
    } catch (const CheckpointError& error) {
      rejected.emplace_back(error.what());
    } catch (const EnvironmentError& error) {  // missing or unreadable
      rejected.emplace_back(error.what());
    }
  }
  throw CheckpointError(say("none of the ", folders.size(), " checkpoints in ", folder().string(),
                            " is valid:", table(rejected),
                            "\nRestore one of them, or choose another job.dump_folder to start ",
                            "from scratch"));
}

Loaded Store::load_step(std::int64_t step, std::span<const Piece> wanted, const Match& match) {
  const std::vector<fs::path> folders = candidates();
  const std::vector<std::vector<Piece>> of_all = pieces_of_all(team_, wanted);
  std::string there;
  for (const fs::path& from : folders) {
    const std::int64_t found = *step_of(from.filename().string());
    if (found == step) return load(from, wanted, of_all, match);
    there += say(there.empty() ? "" : ", ", found);
  }
  throw CheckpointError(say("no checkpoint of step ", step, " in ", folder().string(),
                            there.empty() ? ": it is empty" : ", there are " + there));
}

std::vector<std::int64_t> Store::prune(const Retention& retention) {
  require_lease();
  return checkpoint::prune(list(), run_, retention, good_);
}

bool is_checkpoint(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / Manifest::kFileName, ignored);
}

fs::path newest_checkpoint(const fs::path& run_or_checkpoint) {
  std::error_code why;
  if (!fs::is_directory(run_or_checkpoint, why)) {
    throw CheckpointError(say(run_or_checkpoint.string(), ": no such folder"));
  }
  if (is_checkpoint(run_or_checkpoint)) return run_or_checkpoint;
  const Store store(run_or_checkpoint);
  std::vector<std::string> reasons;
  for (const Summary& summary : store.list()) {
    if (summary.manifest) return summary.folder;
    reasons.push_back(summary.problem);
  }
  throw CheckpointError(
      say(run_or_checkpoint.string(),
          reasons.empty() ? " has no checkpoint" : ": no checkpoint is valid:", table(reasons)));
}

Loaded load_from(const fs::path& run_or_checkpoint, std::span<const Piece> wanted,
                 const Match& match) {
  const fs::path newest = newest_checkpoint(run_or_checkpoint);
  if (newest != run_or_checkpoint) {
    return *Store(run_or_checkpoint)
                .load_newest(wanted, match);  // not empty: newest_checkpoint found one
  }
  Manifest manifest = read_manifest(newest);
  load_pieces(newest, manifest, wanted, match);
  const std::int64_t step = manifest.step;
  return {step, newest, std::move(manifest), {}, 0};
}

}  // namespace trireme::checkpoint
