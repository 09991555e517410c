#include "checkpoint/memory/memory_store.h"

#include <algorithm>
#include <set>

#include "checkpoint/format/catalogue.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/shard_report.h"
#include "checkpoint/write/division.h"
#include "model/base/error.h"

namespace trireme::checkpoint {
namespace {

// Libraries take the count of a message as int.
constexpr std::size_t kMessage = std::size_t{256} << 20;

// A shard split into messages; its size is a multiple of a word.
std::vector<Tensor> messages(std::span<std::byte> memory) {
  std::vector<Tensor> parts;
  for (std::size_t at = 0; at < memory.size(); at += kMessage) {
    const std::size_t bytes = std::min(kMessage, memory.size() - at);
    parts.push_back(
        {memory.data() + at, DType::kI32, Shape{static_cast<std::int64_t>(bytes / 4)}, Device{}});
  }
  return parts;
}

}  // namespace

MemoryStore::MemoryStore(std::filesystem::path place, const std::string& run, Nodes nodes,
                         Communicator& ranks)
    : run_(run),
      nodes_(std::move(nodes)),
      ranks_(ranks),
      team_(ranks),
      folder_(std::move(place), run),
      reader_(folder_, nodes_, ranks, run) {}

void MemoryStore::take() {
  team_.together([&] {
    if (leads()) folder_.take();
  });
  taken_ = true;
}

std::optional<Loaded> MemoryStore::load_newest(std::span<const Piece> wanted,
                                               std::optional<Lineage> disk,
                                               std::vector<std::string>& rejected,
                                               const Match& match) {
  const std::vector<std::string> there = team_.together(
      [&] { return leads() && folder_.exists() ? std::string("yes") : std::string(); });
  if (std::all_of(there.begin(), there.end(), [](const auto& text) { return text.empty(); })) {
    return std::nullopt;
  }
  take();
  for (const SealedSnapshot& snapshot : reader_.list(rejected)) {
    if (disk && snapshot.lineage <= *disk) break;
    try {
      Loaded loaded = reader_.load(snapshot, wanted, match);
      rejected.insert(rejected.end(), loaded.rejected.begin(), loaded.rejected.end());
      loaded.rejected.clear();
      newest_ = snapshot.slot;
      return loaded;
    } catch (const MismatchError&) {
      throw;
    } catch (const CheckpointError& error) {
      rejected.emplace_back(error.what());
    } catch (const EnvironmentError& error) {
      rejected.emplace_back(error.what());
    }
  }
  return std::nullopt;
}

void MemoryStore::forget() {
  team_.together([&] {
    for (int slot = 0; leads() && slot < MemoryFolder::kSlots; ++slot) folder_.invalidate(slot);
  });
  newest_.reset();
}

void MemoryStore::prepare(std::span<const Piece> pieces, std::uint64_t available) {
  division_ = divide(team_, pieces);
  layouts_.clear();
  for (const std::vector<Piece>& rank : division_.ranks) layouts_.emplace_back(rank);
  take();
  team_.together([&] {
    if (!leads()) return;
    removed_ = folder_.remove_forgotten();
    check_memory_room(folder_.path().parent_path(), folder_.path(), bytes_here(), available);
  });
  for (int slot = 0; slot < MemoryFolder::kSlots; ++slot) {
    if (slot != newest_) fit(slot);
  }
}

std::uint64_t MemoryStore::bytes_here() const {
  std::uint64_t bytes = 0;
  for (const int rank : nodes_.ranks(nodes_.of(team_.rank()))) {
    bytes += layouts_[static_cast<std::size_t>(rank)].bytes;
    for (const int other : nodes_.kept_by(rank)) {
      bytes += layouts_[static_cast<std::size_t>(other)].bytes;
    }
  }
  return bytes * MemoryFolder::kSlots;
}

std::string MemoryStore::shard_name_of(int rank) const {
  return raw_shard_name(static_cast<std::size_t>(rank), layouts_.size());
}

MappedShard MemoryStore::shard_in(int slot, int rank) const {
  return {folder_.slot(slot) / shard_name_of(rank), layouts_[static_cast<std::size_t>(rank)].bytes};
}

// Resizes the slot's files to this run's layout.
void MemoryStore::fit(int slot) {
  team_.together([&] {
    if (!leads()) return;
    std::set<std::string> names;
    for (const int rank : nodes_.ranks(nodes_.of(team_.rank()))) {
      names.insert(shard_name_of(rank));
      for (const int other : nodes_.kept_by(rank)) names.insert(shard_name_of(other));
    }
    folder_.invalidate(slot);
    folder_.clear(slot, names);
  });
  team_.together([&] {
    Slot made{shard_in(slot, team_.rank()), {}};
    for (const int other : nodes_.kept_by(team_.rank())) {
      made.copies.emplace_back(other, shard_in(slot, other));
    }
    slots_[static_cast<std::size_t>(slot)].emplace(std::move(made));
  });
}

void MemoryStore::send_copies(const Slot& slot) {
  Stream stream;
  std::vector<Transfer> transfers;
  for (const auto& [from, shard] : slot.copies) {
    for (const Tensor& part : messages(shard.memory())) {
      transfers.push_back(ranks_.start_receive(stream, part, from));
    }
  }
  if (const std::optional<int> to = nodes_.keeper(team_.rank())) {
    for (const Tensor& part : messages(slot.own.memory())) {
      transfers.push_back(ranks_.start_send(stream, part, *to));
    }
  }
  for (Transfer& transfer : transfers) transfer.wait();
}

void MemoryStore::save(Manifest described, const AddDigests& add_digests) {
  require(!layouts_.empty(), "save() was called before prepare()");
  const int target = newest_ == 0 ? 1 : 0;
  if (!slots_[static_cast<std::size_t>(target)]) fit(target);
  const Slot& slot = *slots_[static_cast<std::size_t>(target)];
  const std::vector<std::string> reports = team_.together([&] {
    folder_.invalidate(target);  // a rank of the node may be ready before its leader
    return json_text(write_raw_shard(shard_name_of(team_.rank()), division_.mine,
                                     layouts_[static_cast<std::size_t>(team_.rank())],
                                     slot.own.memory()));
  });
  send_copies(slot);
  const std::string text = team_.led([&] {
    std::vector<WrittenShard> shards;
    for (const std::string& report : reports) {
      shards.push_back(read_json<WrittenShard>(report, "a report of a shard"));
    }
    add_tables(described, division_.ranks, shards, add_digests);
    return to_text(described);
  });
  team_.together([&] {
    if (leads()) folder_.seal(target, text);
  });
  newest_ = target;
}

void MemoryStore::remove() {
  for (auto& slot : slots_) slot.reset();
  newest_.reset();
  team_.together([&] {
    if (leads() && folder_.exists()) folder_.remove();
  });
}

}  // namespace trireme::checkpoint
