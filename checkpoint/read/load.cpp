#include "checkpoint/read/load.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <optional>
#include <utility>

#include "checkpoint/format/boxes.h"
#include "checkpoint/format/checksums.h"
#include "checkpoint/read/read_plan.h"
#include "checkpoint/read/transfer.h"
#include "checkpoint/read/window.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/hex.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

// Verifies the bytes of a stored box against its block checksums as they are read.
class BlockCheck {
 public:
  // `part` is one of the box, whose tensor outlives it; `file` is used in messages.
  BlockCheck(fs::path file, const ReadPart& part)
      : file_(std::move(file)), tensor_(part.tensor), stored_(part.rectangle) {}

  const Rectangle* rectangle() const { return stored_; }
  // Checks `bytes` at offset `at` of the box: the start of a block, or the end of the previous
  // call. Throws CheckpointError, naming file and tensor, when a completed block does not match.
  void see(std::uint64_t at, std::span<const std::byte> bytes) {
    const std::uint64_t size = checked_bytes(*stored_);
    while (!bytes.empty()) {
      const std::uint64_t from = at / size * size;
      const std::uint64_t to = std::min(from + size, stored_->bytes);
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), to - at));
      remainder_ = remainder_of(bytes.first(n), at == from ? 0 : remainder_);
      at += n;
      bytes = bytes.subspan(n);
      if (at == to) compare(from, to);
    }
  }

 private:
  void compare(std::uint64_t from, std::uint64_t to) const {
    const std::uint32_t got = crc_from(remainder_, to - from);
    const std::uint32_t expected =
        stored_->blocks.empty() ? stored_->crc32c : stored_->blocks[from / checked_bytes(*stored_)];
    if (got == expected) return;
    throw CheckpointError(say(file_.string(), ": damaged: tensor ", tensor_->name, " at byte ",
                              stored_->offset + from, ": CRC32C ", hex(got), ", expected ",
                              hex(expected)));
  }

  fs::path file_;
  const StoredTensor* tensor_;
  const Rectangle* stored_;
  std::uint32_t remainder_ = 0;  // of the current block
};

Range range_of(const ReadPart& part) {
  return {part.rectangle->offset + part.from, part.bytes()};
}

// Fills a rank's pieces from a checkpoint's files. Throws CheckpointError if a block does not match
// its checksum, EnvironmentError if a file cannot be read.
class Loader {
 public:
  // All arguments outlive it.
  Loader(const fs::path& folder, const Manifest& manifest, std::span<const Piece> wanted)
      : folder_(folder),
        manifest_(manifest),
        files_(folder, manifest),
        wanted_(by_tensor(wanted)) {}

  // Reads parts that only this rank needs. Uses a buffer of kWindow bytes.
  void read(std::span<const ReadPart> parts);
  // Reads and verifies one part that other ranks need too into `memory`, which has the size a
  // Window needs. Parts of a box must come in order. Does not copy to this rank's pieces.
  void read_shown(const ReadPart& part, std::byte* memory);
  BoxTransfer transfer_of(const ReadPart& part) const {
    return {*part.tensor, *part.rectangle, wanted_};
  }
  // Verifies completely loaded tensors against the checksums in the manifest.
  void verify_memory() const;

 private:
  BlockCheck check_of(const ReadPart& part) const {
    return {folder_ / manifest_.shards[part.rectangle->shard].name, part};
  }

  const fs::path& folder_;
  const Manifest& manifest_;
  ShardFiles files_;
  PiecesOf wanted_;
  std::optional<BlockCheck> shown_;  // of the box whose parts are being shared
};

void Loader::read(std::span<const ReadPart> parts) {
  const AlignedBuffer buffer = make_aligned_buffer();
  for (const ReadPart& part : parts) {
    const BoxTransfer transfer = transfer_of(part);
    BlockCheck check = check_of(part);
    Window window(files_[part.rectangle->shard], range_of(part), buffer);
    // Verify and copy a block while it is in the cache.
    const std::uint64_t step = std::min<std::uint64_t>(checked_bytes(*part.rectangle), kWindow);
    for (std::uint64_t at = part.from; at < part.to; at += step) {
      const auto n = static_cast<std::size_t>(std::min(step, part.to - at));
      const std::span<const std::byte> bytes = window.at(at - part.from, n);
      check.see(at, bytes);
      transfer.take(at, bytes);
    }
  }
}

void Loader::read_shown(const ReadPart& part, std::byte* memory) {
  if (!shown_ || shown_->rectangle() != part.rectangle) shown_.emplace(check_of(part));
  Window window(files_[part.rectangle->shard], range_of(part), memory);
  shown_->see(part.from, window.at(0, part.bytes()));
}

void Loader::verify_memory() const {
  for (const auto& [name, pieces] : wanted_) {
    std::vector<Box> boxes;
    for (const Piece* piece : pieces) boxes.push_back(piece->box);
    const StoredTensor* const stored = manifest_.find(name);
    if (!stored || !tile_exactly(boxes, stored->shape)) continue;
    std::uint32_t remainder = 0;
    for (const Piece* piece : pieces) {
      const auto read = [&](std::uint64_t at, std::size_t n) {
        return std::span<const std::byte>(piece->data + at, n);
      };
      remainder ^= digest_of(piece->box, stored->shape, size_of(stored->dtype), read).share;
    }
    const std::uint32_t got = crc_from(remainder, stored->bytes());
    if (got == stored->crc32c) continue;
    throw CheckpointError(say("tensor ", name, " differs in memory from what was stored: CRC32C ",
                              hex(got), ", expected ", hex(stored->crc32c)));
  }
}

// Shared memory of a rank: a failure flag, then two buffers, of which one is filled while the other
// ranks read the other one.
constexpr std::size_t kPlace = ReadPlan::kMostShown + 2 * kBlock;
static_assert(ReadPlan::kMostShown % kBlock == 0 && 2 * ReadPlan::kMostShown <= kWindow);

std::byte* place_of(const HostPeers& host, std::size_t rank, std::size_t round) {
  return host.memory_of(rank) + kBlock + round % 2 * kPlace;
}

// Runs work on the ranks of a host in lockstep: after each step either all continue or none.
class Steps {
 public:
  explicit Steps(HostPeers& host) : host_(host) { new (host.memory_of(host.place())) Flag(0); }

  // Whether all ranks completed the step; rethrows this rank's exception.
  template <class Work>
  bool take(const Work& work) {
    ++step_;
    std::exception_ptr failure;
    try {
      work();
    } catch (...) {
      failure = std::current_exception();
      flag_of(host_.place()).store(step_, std::memory_order_relaxed);
    }
    host_.meet();
    if (failure) std::rethrow_exception(failure);
    for (std::size_t rank = 0; rank < host_.size(); ++rank) {
      // A rank that is ahead may already have failed in the next step.
      const std::uint64_t failed = flag_of(rank).load(std::memory_order_relaxed);
      if (failed != 0 && failed <= step_) return false;
    }
    return true;
  }

 private:
  using Flag = std::atomic<std::uint64_t>;  // the step in which a rank failed; 0: none
  static_assert(Flag::is_always_lock_free && sizeof(Flag) <= kBlock);
  Flag& flag_of(std::size_t rank) const {
    return *std::launder(reinterpret_cast<Flag*>(host_.memory_of(rank)));
  }

  HostPeers& host_;
  std::uint64_t step_ = 0;
};

// Copies the parts that one rank shares to this rank's pieces, one box after the other.
class Taker {
 public:
  void take(const Loader& loader, const ReadPart& part, const std::byte* memory) {
    if (rectangle_ != part.rectangle) transfer_ = loader.transfer_of(part);
    rectangle_ = part.rectangle;
    transfer_.take(part.from, {memory + range_of(part).offset % kBlock, part.bytes()});
  }

 private:
  const Rectangle* rectangle_ = nullptr;
  BoxTransfer transfer_;
};

}  // namespace

void check_files(const fs::path& folder, const Manifest& manifest) {
  const auto check = [&](const StoredFile& file) {
    const std::uint64_t size = File::open_read(folder / file.name).size();
    if (size == file.bytes) return;
    throw CheckpointError(say((folder / file.name).string(), ": ", size, " bytes, expected ",
                              file.bytes, size < file.bytes ? ": it is truncated" : ""));
  };
  for (const StoredFile& shard : manifest.shards) check(shard);
}

void load_pieces(const fs::path& folder, const Manifest& manifest, std::span<const Piece> wanted,
                 const Match& match) {
  check_match(manifest, wanted, match, folder.string());
  check_files(folder, manifest);
  Loader loader(folder, manifest, wanted);
  loader.read(plan_reads(manifest, {&wanted, 1}, 0).own);
  loader.verify_memory();
}

std::size_t shared_bytes() {
  return kBlock + 2 * kPlace;
}

bool load_together(const fs::path& folder, const Manifest& manifest,
                   std::span<const std::span<const Piece>> wanted, HostPeers& host) {
  const std::size_t own = host.place();
  Steps steps(host);
  std::optional<Loader> loader;
  ReadPlan plan;
  std::vector<Taker> takers;
  std::size_t rounds = 0;
  const bool begun = steps.take([&] {
    loader.emplace(folder, manifest, wanted[own]);
    plan = plan_reads(manifest, wanted, own);
    takers.resize(wanted.size());
    for (const auto& parts : plan.shown) rounds = std::max(rounds, parts.size());
    loader->read(plan.own);
  });
  if (!begun) return false;
  const auto show = [&](std::size_t round) {
    const std::vector<ReadPart>& mine = plan.shown[own];
    if (round < mine.size()) loader->read_shown(mine[round], place_of(host, own, round));
  };
  const auto take = [&](std::size_t round) {
    for (std::size_t rank = 0; rank < takers.size(); ++rank) {
      const std::vector<ReadPart>& theirs = plan.shown[rank];
      if (round >= theirs.size()) continue;
      takers[rank].take(*loader, theirs[round], place_of(host, rank, round));
    }
  };
  for (std::size_t round = 0; round <= rounds; ++round) {
    const bool all_well = steps.take([&] {
      // Half of the ranks read from disk while the others copy.
      if (own % 2 == 0) show(round);
      if (round > 0) take(round - 1);
      if (own % 2 != 0) show(round);
    });
    if (!all_well) return false;
  }
  loader->verify_memory();
  return true;
}

}  // namespace trireme::checkpoint
