#pragma once
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "checkpoint/format/boxes.h"
#include "checkpoint/format/names.h"
#include "checkpoint/format/piece.h"
#include "checkpoint/store/saver.h"
#include "checkpoint/write/shard_writer.h"

namespace trireme::checkpoint {

// A folder of its own that goes with the object.
class Scratch {
 public:
  explicit Scratch(const std::filesystem::path& below = std::filesystem::temp_directory_path())
      : path_(below / ("trireme-test-" + new_uuid())) {
    std::filesystem::create_directories(path_);
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The state of a small model: tensors of several ranks, shapes and dtypes, whose
// values follow from `seed`. A null seed is memory full of 0xee.
class State {
 public:
  explicit State(unsigned seed = 0, std::int64_t scale = 1) {
    memory_.reserve(8);
    add("model/embed.weight", DType::kF32, {101 * scale, 24});
    add("model/layers.0.norm.weight", DType::kF32, {24});
    add("model/layers.0.attention.qkv.weight", DType::kBf16, {3, 8, 24});
    add("model/layers.0.mlp.down.weight", DType::kF16, {24, 16});
    add("model/layers.0.mlp.up.weight", DType::kF64, {16, 24});
    add("adam.m/layers.0.experts.weight", DType::kF32, {2, 3, 5, 7});
    add("adam.step", DType::kI32, {1});
    fill(seed);
  }
  void fill(unsigned seed) {
    std::mt19937 random(seed);
    for (auto& bytes : memory_) {
      for (std::byte& byte : bytes) byte = seed ? std::byte(random() & 0x3fu) : std::byte{0xee};
    }
  }
  const std::vector<Piece>& pieces() const { return pieces_; }
  bool operator==(const State& other) const { return memory_ == other.memory_; }

  Snapshot snapshot(std::int64_t step) const {
    Snapshot snapshot;
    Manifest& manifest = snapshot.manifest;
    manifest.step = step;
    manifest.config = "[job]\nseed = 1\n";
    manifest.data = {{"samples", step * 8}};
    manifest.digests = {{"loss", "400921fb54442d18"}};
    return snapshot;
  }

 private:
  void add(const std::string& name, DType dtype, Shape shape) {
    memory_.emplace_back(static_cast<std::size_t>(shape.count()) * size_of(dtype));
    pieces_.push_back({name, dtype, shape, all_of(shape), memory_.back().data()});
  }
  std::vector<std::vector<std::byte>> memory_;
  std::vector<Piece> pieces_;
};

inline Committed commit(Store& store, const State& state, std::int64_t step) {
  return Saver(store, state.pieces()).save(state.snapshot(step));
}

// One process in the place of all ranks writes a checkpoint into `partial`, all but its name.
inline void write_checkpoint(const std::filesystem::path& partial, Manifest& manifest,
                             std::span<const std::vector<Piece>> ranks) {
  std::vector<WrittenShard> written;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    written.push_back(write_shard(partial / shard_name(rank, ranks.size()),
                                  {manifest.run, manifest.step}, ranks[rank]));
  }
  add_tables(manifest, ranks, written);
  complete(partial, manifest);
}

}  // namespace trireme::checkpoint
