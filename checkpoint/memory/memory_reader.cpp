#include "checkpoint/memory/memory_reader.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "checkpoint/format/crc32c.h"
#include "checkpoint/memory/fetch.h"
#include "checkpoint/read/load.h"
#include "checkpoint/read/window.h"
#include "checkpoint/write/division.h"
#include "model/base/error.h"
#include "model/base/hex.h"
#include "model/base/json.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

Manifest manifest_of_run(const std::string& text, const fs::path& path, const std::string& run) {
  Manifest manifest = parse_manifest(text, path.string());
  if (manifest.run != run) {
    throw CheckpointError(say(path.string(), ": it belongs to run ", manifest.run));
  }
  if (!manifest.in_memory()) {
    throw CheckpointError(say(path.string(), ": it is not of a snapshot in memory"));
  }
  return manifest;
}

// All shards of a snapshot under their names: links to valid ones, sparse files of the right size
// for the others, into which the wanted boxes are fetched. Removed by the destructor.
class ReadingFolder {
 public:
  explicit ReadingFolder(fs::path path) : path_(std::move(path)) {}
  ReadingFolder(const ReadingFolder&) = delete;
  ReadingFolder& operator=(const ReadingFolder&) = delete;
  ~ReadingFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  void make(const Manifest& manifest, const fs::path& slot, int node,
            const std::vector<std::vector<int>>& holders) const {
    make_folders(path_);
    for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
      const fs::path path = path_ / manifest.shards[i].name;
      std::error_code why;
      if (std::find(holders[i].begin(), holders[i].end(), node) != holders[i].end()) {
        fs::create_symlink(fs::absolute(slot / manifest.shards[i].name), path, why);
      } else {
        File::create_new(path).close();
        fs::resize_file(path, manifest.shards[i].bytes, why);
      }
      if (why) throw EnvironmentError(say("cannot make ", path.string(), ": ", why.message()));
    }
  }

 private:
  fs::path path_;
};

}  // namespace

MemoryReader::MemoryReader(const MemoryFolder& folder, const Nodes& nodes, Communicator& ranks,
                           const std::string& run)
    : folder_(folder), nodes_(nodes), ranks_(ranks), team_(ranks), run_(run) {}

std::vector<SealedSnapshot> MemoryReader::list(std::vector<std::string>& problems) const {
  const std::vector<std::string> reports = team_.together([&] {
    json found = json::array();
    for (int slot = 0; leads() && slot < MemoryFolder::kSlots; ++slot) {
      const fs::path path = folder_.slot(slot) / Manifest::kFileName;
      try {
        if (!fs::exists(path)) continue;
        const std::string text = read_text(path, Manifest::kMaxText);
        const Manifest manifest = manifest_of_run(text, path, run_);
        found.push_back(
            {slot, manifest.sequence, manifest.step, crc32c(std::as_bytes(std::span(text)))});
      } catch (const std::exception& error) {
        found.push_back(error.what());
      }
    }
    return json_text(found);
  });
  std::map<std::tuple<Lineage, int, std::uint32_t>, std::vector<int>> snapshots;
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    for (const json& item : json::parse(reports[rank])) {
      if (item.is_string()) {
        problems.push_back(item);
        continue;
      }
      snapshots[{Lineage{item[1], item[2]}, item[0], item[3]}].push_back(
          nodes_.of(static_cast<int>(rank)));
    }
  }
  std::vector<SealedSnapshot> newest_first;
  for (auto at = snapshots.rbegin(); at != snapshots.rend(); ++at) {
    const auto& [lineage, slot, crc] = at->first;
    newest_first.push_back({slot, lineage, crc, at->second});
  }
  return newest_first;
}

// The ranks of a node divide the work.
MemoryReader::Shards MemoryReader::verified(const Manifest& manifest, const fs::path& slot) const {
  const std::size_t own = nodes_.place(team_.rank());
  const std::size_t sharers = nodes_.ranks(nodes_.of(team_.rank())).size();
  const std::vector<std::string> reports = team_.together([&] {
    json found = json::array();
    for (std::size_t i = own; i < manifest.shards.size(); i += sharers) {
      const StoredFile& shard = manifest.shards[i];
      const fs::path path = slot / shard.name;
      try {
        if (!fs::exists(path)) continue;
        const Scan scan = scan_file(path, {});
        if (scan.bytes == shard.bytes && scan.crc32c == shard.crc32c) {
          found.push_back(i);
        } else {
          found.push_back(say(path.string(), ": damaged: ", scan.bytes, " bytes of CRC32C ",
                              hex(scan.crc32c), ", expected ", shard.bytes, " of ",
                              hex(shard.crc32c)));
        }
      } catch (const std::exception& error) {
        found.push_back(error.what());
      }
    }
    return json_text(found);
  });
  Shards shards{std::vector<std::vector<int>>(manifest.shards.size()), {}};
  for (std::size_t rank = 0; rank < reports.size(); ++rank) {
    for (const json& item : json::parse(reports[rank])) {
      if (item.is_string()) {
        shards.problems.push_back(item);
      } else {
        shards.holders[item.get<std::size_t>()].push_back(nodes_.of(static_cast<int>(rank)));
      }
    }
  }
  return shards;
}

Loaded MemoryReader::load(const SealedSnapshot& snapshot, std::span<const Piece> wanted,
                          const Match& match) const {
  const fs::path slot = folder_.slot(snapshot.slot);
  const fs::path path = slot / Manifest::kFileName;
  const int teller = nodes_.leader(snapshot.nodes.front());
  const std::string text = team_.together([&] {
    return team_.rank() == teller ? read_text(path, Manifest::kMaxText) : std::string();
  })[static_cast<std::size_t>(teller)];
  Loaded loaded{snapshot.lineage.step, slot, manifest_of_run(text, path, run_), {}};
  const Manifest& manifest = loaded.manifest;
  const std::vector<std::vector<Piece>> of_all = pieces_of_all(team_, wanted);
  team_.together([&] { check_match(manifest, joined(of_all), match, slot.string()); });
  Shards shards = verified(manifest, slot);
  for (std::size_t i = 0; i < shards.holders.size(); ++i) {
    if (!shards.holders[i].empty()) continue;
    std::string why = say(slot.string(), ": the snapshot of step ", manifest.step, " has no valid ",
                          manifest.shards[i].name);
    for (const std::string& problem : shards.problems) why += "; " + problem;
    throw CheckpointError(why);
  }
  loaded.rejected = std::move(shards.problems);

  const fs::path reading = folder_.path() / "reading";
  std::optional<ReadingFolder> made;
  if (leads()) made.emplace(reading);
  team_.together([&] {
    if (made) made->make(manifest, slot, nodes_.of(team_.rank()), shards.holders);
  });
  const std::vector<Fetch> fetches = plan_fetches(manifest, shards.holders, nodes_, of_all);
  team_.together([&] { carry_out(fetches, manifest, ranks_, slot, reading); });
  team_.together([&] {
    load_pieces(reading, manifest, wanted, {.subset = true, .optional = match.optional});
  });
  return loaded;
}

}  // namespace trireme::checkpoint
