#include "checkpoint/store.h"

#include <algorithm>
#include <limits>
#include <map>
#include <sstream>

#include "checkpoint/commit.h"
#include "checkpoint/load.h"
#include "checkpoint/names.h"
#include "checkpoint/shard_report.h"
#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLatest = "latest";  // for people
constexpr const char* kRun = "run";
constexpr std::uint64_t kOverhead = 1u << 20;  // HDF5's structure and the manifest, generously

std::uint64_t bytes_of(std::span<const Piece> pieces) {
  std::uint64_t sum = 0;
  for (const Piece& piece : pieces) sum += piece.bytes();
  return sum;
}

std::vector<Piece> joined(std::span<const std::vector<Piece>> ranks) {
  std::vector<Piece> all;
  for (const std::vector<Piece>& pieces : ranks)
    all.insert(all.end(), pieces.begin(), pieces.end());
  return all;
}

// Leaves each piece to one of the ranks that hold it, so that the ranks write about the
// same number of bytes: what only one holds first, then replicas where there is least.
// Returns those of `held`, the pieces of `rank` with their memory, that are its to write.
std::vector<Piece> shared_out(std::vector<std::vector<Piece>>& ranks, std::size_t rank,
                              std::span<const Piece> held) {
  using Place = std::pair<std::size_t, std::size_t>;  // rank, index
  std::map<std::string, std::vector<Place>> holders;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    for (std::size_t i = 0; i < ranks[r].size(); ++i) {
      holders[say(ranks[r][i].tensor, ranks[r][i].box.from, ranks[r][i].box.extent)].push_back(
          {r, i});
    }
  }
  std::vector<std::uint64_t> bytes(ranks.size());
  std::vector<std::vector<bool>> writes(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) writes[r].resize(ranks[r].size());
  const auto leave_to = [&](Place place) {
    bytes[place.first] += ranks[place.first][place.second].bytes();
    writes[place.first][place.second] = true;
  };
  for (const auto& [piece, places] : holders) {
    for (std::size_t i = 1; i < places.size(); ++i) {
      require(places[i].first != places[i - 1].first, piece, ": twice on rank ", places[i].first);
    }
    if (places.size() == 1) leave_to(places.front());
  }
  for (const auto& [piece, places] : holders) {
    if (places.size() == 1) continue;
    leave_to(*std::min_element(places.begin(), places.end(), [&](Place a, Place b) {
      return std::pair(bytes[a.first], a) < std::pair(bytes[b.first], b);
    }));
  }
  std::vector<Piece> mine;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    std::vector<Piece> kept;
    for (std::size_t i = 0; i < ranks[r].size(); ++i) {
      if (!writes[r][i]) continue;
      kept.push_back(std::move(ranks[r][i]));
      if (r == rank) mine.push_back(held[i]);
    }
    ranks[r] = std::move(kept);
  }
  return mine;
}

std::string table(const std::vector<std::string>& reasons) {
  std::string text;
  for (const std::string& reason : reasons) text += "\n  " + reason;
  return text;
}

// Newest first. An unreadable one counts as written right after the last that its
// step follows: better reported too early than never.
void sort_by_lineage(std::vector<Summary>& summaries) {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    double age = -1;
    if (summaries[i].manifest) {
      age = static_cast<double>(summaries[i].manifest->sequence);
    } else {
      for (const Summary& other : summaries) {
        if (!other.manifest || other.step >= summaries[i].step) continue;
        age = std::max(age, static_cast<double>(other.manifest->sequence) + 0.5);
      }
    }
    order.emplace_back(age, i);
  }
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return std::pair(a.first, summaries[a.second].step) >
           std::pair(b.first, summaries[b.second].step);
  });
  std::vector<Summary> sorted;
  for (const auto& [age, i] : order) sorted.push_back(std::move(summaries[i]));
  summaries = std::move(sorted);
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

// The run is what its file says. One that fits none of the checkpoints is damaged or another
// run's: then it is what the newest of them says.
void Store::identify() {
  std::string told;
  try {
    told = read_text(folder() / kRun, 4096);
    if (!told.empty() && told.back() == '\n') told.pop_back();
    if (!is_uuid(told)) told.clear();
  } catch (const EnvironmentError&) {
    // missing, or no file of ours
  }
  std::string newest;
  bool fits = false;
  for (const Summary& summary : list()) {
    if (!summary.manifest) {
      fits = true;  // as far as can be said
      continue;
    }
    if (newest.empty()) newest = summary.manifest->run;
    fits = fits || summary.manifest->run == told;
    sequence_ = std::max(sequence_, summary.manifest->sequence + 1);
  }
  run_ = told.empty() || (!fits && !newest.empty()) ? newest : told;
}

const Lease& Store::lease() const {
  require(lease_ != nullptr, "only the holder of a lease may write ", run_dir_.string());
  if (!lease_->held()) {
    throw CheckpointError(say(run_dir_.string(), ": this process has lost its lease: LEASE.json ",
                              "was removed or belongs to another run now"));
  }
  return *lease_;
}

Committed Store::commit(const Snapshot& snapshot) {
  require(snapshot.step >= 0, "a snapshot of step ", snapshot.step);
  std::vector<std::vector<Piece>> pieces;
  for (const std::string& text : team_.together([&] { return pieces_text(snapshot.pieces); })) {
    pieces.push_back(parse_pieces(text));
  }
  const std::vector<Piece> mine =
      shared_out(pieces, static_cast<std::size_t>(team_.rank()), snapshot.pieces);
  std::optional<PartialCheckpoint> partial;
  const fs::path path = team_.led([&] {
    lease();
    const std::vector<Piece> all = joined(pieces);
    check_pieces(all);
    check_space(folder(), bytes_of(all) + kOverhead);
    partial.emplace(folder(), snapshot.step);
    return partial->path().string();
  });
  const auto ranks = static_cast<std::size_t>(team_.size());
  const auto rank = static_cast<std::size_t>(team_.rank());
  const std::vector<std::string> reports = team_.together([&] {
    return shard_text(write_shard(path / shard_name(rank, ranks), {run_, snapshot.step}, mine));
  });
  team_.led([&] {
    std::vector<WrittenShard> written;
    for (const std::string& report : reports) written.push_back(parse_shard(report));
    Manifest manifest = described(snapshot);
    partial->complete(manifest, pieces, written);
    lease();  // a late writer must not commit
    partial->publish();
    try {
      replace_text(folder() / kLatest, step_name(snapshot.step) + "\n");
    } catch (const EnvironmentError&) {
      // The commit has happened; nobody but people reads this file.
    }
    return std::string();
  });
  good_.insert(snapshot.step);
  parent_ = snapshot.step;
  ++sequence_;
  return {folder() / step_name(snapshot.step), bytes_of(joined(pieces))};
}

Manifest Store::described(const Snapshot& snapshot) const {
  Manifest manifest;
  manifest.run = run_;
  manifest.step = snapshot.step;
  manifest.parent = parent_;
  manifest.sequence = sequence_;
  manifest.written = now_text();
  manifest.config = snapshot.config_toml;
  manifest.tokenizer = snapshot.tokenizer;
  manifest.data = snapshot.data;
  manifest.scalars = snapshot.scalars;
  manifest.digests = snapshot.digests;
  manifest.layout = snapshot.layout;
  manifest.versions = snapshot.versions;
  return manifest;
}

std::vector<Piece> Store::wanted_by_all(std::span<const Piece> wanted) const {
  std::vector<std::vector<Piece>> all;
  for (const std::string& text : team_.together([&] {
         return pieces_text({wanted.begin(), wanted.end()});
       })) {
    all.push_back(parse_pieces(text));
  }
  return joined(all);
}

Loaded Store::load(const fs::path& from, std::span<const Piece> wanted,
                   std::span<const Piece> of_all, Match match) {
  Loaded loaded{0, from, {}, {}};
  team_.together([&] {
    loaded.manifest = read_manifest(from);
    if (!run_.empty() && loaded.manifest.run != run_) {
      throw CheckpointError(say(from.string(), ": it belongs to run ", loaded.manifest.run,
                                ", this folder to run ", run_));
    }
    check_match(loaded.manifest, of_all, match, from.string());
    load_pieces(from, loaded.manifest, wanted, Match::kSubset);
    return std::string();
  });
  loaded.step = loaded.manifest.step;
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

std::optional<Loaded> Store::load_newest(std::span<const Piece> wanted, Match match) {
  const std::vector<fs::path> folders = candidates();
  if (folders.empty()) return std::nullopt;
  const std::vector<Piece> of_all = wanted_by_all(wanted);
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
    } catch (const EnvironmentError& error) {  // missing, unreadable
      rejected.emplace_back(error.what());
    }
  }
  throw CheckpointError(say("none of the ", folders.size(), " checkpoints in ", folder().string(),
                            " is good:", table(rejected),
                            "\nRestore one of them, or choose another job.dump_folder to start ",
                            "from nothing"));
}

Loaded Store::load_step(std::int64_t step, std::span<const Piece> wanted, Match match) {
  const std::vector<fs::path> folders = candidates();
  const std::vector<Piece> of_all = wanted_by_all(wanted);
  std::string there;
  for (const fs::path& from : folders) {
    const std::int64_t found = *step_of(from.filename().string());
    if (found == step) return load(from, wanted, of_all, match);
    there += say(there.empty() ? "" : ", ", found);
  }
  throw CheckpointError(say("there is no checkpoint of step ", step, " in ", folder().string(),
                            there.empty() ? ": it is empty" : ", there are " + there));
}

std::vector<Summary> Store::list() const {
  std::vector<Summary> summaries;
  std::error_code why;
  if (!fs::exists(folder(), why)) return summaries;
  for (const auto& entry : fs::directory_iterator(folder(), why)) {
    const auto step = step_of(entry.path().filename().string());
    if (!step) continue;
    Summary summary{*step, entry.path(), std::nullopt, ""};
    try {
      summary.manifest = read_manifest(entry.path());
    } catch (const Error& error) {
      summary.problem = error.what();
    }
    summaries.push_back(std::move(summary));
  }
  if (why) {
    throw EnvironmentError(say("cannot list ", folder().string(), ": ", why.message()));
  }
  sort_by_lineage(summaries);
  return summaries;
}

bool Store::verified(const Summary& summary) {
  if (!summary.manifest || summary.manifest->run != run_) return false;
  if (good_.contains(summary.step)) return true;
  if (!problems_of(summary.folder).empty()) return false;
  good_.insert(summary.step);
  return true;
}

std::vector<std::int64_t> Store::prune(const Retention& retention) {
  lease();
  require(retention.keep_latest >= 2, "at least two checkpoints are kept");
  int counted = 0;
  std::vector<Summary> surplus;
  for (Summary& summary : list()) {
    if (counted < retention.keep_latest) {
      counted += verified(summary) ? 1 : 0;
    } else if (retention.keep_every == 0 || summary.step % retention.keep_every != 0) {
      surplus.push_back(std::move(summary));
    }
  }
  std::vector<std::int64_t> removed;
  for (auto oldest = surplus.rbegin(); oldest != surplus.rend(); ++oldest) {
    remove_checkpoint(oldest->folder);
    good_.erase(oldest->step);
    removed.push_back(oldest->step);
  }
  return removed;
}

fs::path newest_checkpoint(const fs::path& run_or_checkpoint) {
  std::error_code why;
  if (!fs::is_directory(run_or_checkpoint, why)) {
    throw CheckpointError(say(run_or_checkpoint.string(), ": no such folder"));
  }
  if (fs::exists(run_or_checkpoint / Manifest::kFileName, why)) return run_or_checkpoint;
  const Store store(run_or_checkpoint);
  std::vector<std::string> reasons;
  for (const Summary& summary : store.list()) {
    if (summary.manifest) return summary.folder;
    reasons.push_back(summary.problem);
  }
  throw CheckpointError(
      say(run_or_checkpoint.string(),
          reasons.empty() ? " holds no checkpoint" : ": no checkpoint is good:", table(reasons)));
}

Loaded load_from(const fs::path& run_or_checkpoint, std::span<const Piece> wanted, Match match) {
  const fs::path newest = newest_checkpoint(run_or_checkpoint);
  if (newest != run_or_checkpoint) {
    return *Store(run_or_checkpoint).load_newest(wanted, match);  // not empty: newest is in it
  }
  Manifest manifest = read_manifest(newest);
  load_pieces(newest, manifest, wanted, match);
  const std::int64_t step = manifest.step;
  return {step, newest, std::move(manifest), {}};
}

}  // namespace trireme::checkpoint
