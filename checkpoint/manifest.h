#pragma once
#include <compare>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/params/cut.h"

namespace trireme::checkpoint {

// Its sizes, as a list.
nlohmann::json shape_numbers(const Shape& shape);

// Where one rectangle of a logical tensor lies: `bytes` row-major bytes at
// `offset` of a shard file.
struct Rectangle {
  std::size_t shard = 0;  // index into Manifest::shards
  Box box;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
  std::vector<std::uint32_t> blocks =
      {};  // CRC32C of each of its blocks (blocks.h); may be unknown
};

struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::uint32_t crc32c = 0;           // of all its row-major bytes, however it was cut
  std::vector<Rectangle> rectangles;  // cover the tensor exactly, each element once

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(shape.count()) * size_of(dtype); }
};

struct StoredFile {
  std::string name;  // "shard-00000-of-00001.h5"
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;  // of the whole file
};

// Where a checkpoint stands among those of its run: what is greater is newer.
struct Lineage {
  std::int64_t sequence = 0;
  std::int64_t step = 0;
  auto operator<=>(const Lineage&) const = default;  // NOLINT(modernize-use-nullptr): no pointer
};

// Everything a checkpoint says about itself; manifest.json is its text. The text
// ends with a CRC32C of all that precedes it. Numbers on disk: do not renumber.
struct Manifest {
  static constexpr int kFormat = 1;
  static constexpr const char* kFileName = "manifest.json";
  static constexpr const char* kViewName = "state.h5";
  static constexpr std::uint64_t kMaxText = 256u << 20;

  std::string run;                     // uuid of the run, the same for all its checkpoints
  std::int64_t step = 0;               // optimizer steps done
  std::optional<std::int64_t> parent;  // the checkpoint this one continues
  std::int64_t sequence = 0;           // commits before this one in the run folder: the lineage
  std::string written;                 // UTC, "2025-01-31T12:00:00Z"; for people
  std::vector<StoredFile> shards;
  StoredFile view;                    // state.h5; for people; without a name: see in_memory
  std::vector<StoredTensor> tensors;  // by ascending name
  std::string config;                 // the effective config, TOML
  std::string tokenizer;              // hash of the tokenizer, or empty
  nlohmann::json data;                // data ledger
  nlohmann::json scalars;             // optimizer step and the like
  nlohmann::json digests;             // loss, grad norm ... of this step, as bits
  nlohmann::json layout;              // of the run that wrote it; nothing is read from it
  nlohmann::json versions;            // of the program and its libraries
  std::uint32_t state_crc = 0;        // see state_crc_of

  std::uint64_t bytes() const;  // of all shards and the view
  Lineage lineage() const { return {sequence, step}; }
  // Of a snapshot in memory: its shards are the tensors' bytes without HDF5 around them, and
  // it has no view.
  bool in_memory() const { return view.name.empty(); }
  const StoredTensor* find(std::string_view tensor) const;
};

// The CRC32C of one line "name dtype d0,d1 crc32c\n" (crc32c as eight hex digits)
// for each tensor in ascending order of names: the same for every layout.
std::uint32_t state_crc_of(const std::vector<StoredTensor>& tensors);

std::string to_text(const Manifest& manifest);

// Trusts nothing: keys, types, sizes, names, that rectangles cover their tensors
// and lie inside their shards, both CRCs. Throws CheckpointError naming `from`,
// the key and what is wrong with it.
Manifest parse_manifest(std::string_view text, const std::string& from);

// The manifest of one committed checkpoint folder; also checks that the step is
// the one the folder's name says.
Manifest read_manifest(const std::filesystem::path& folder);

}  // namespace trireme::checkpoint
