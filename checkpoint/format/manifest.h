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

// A stored box of a logical tensor: `bytes` row-major bytes at `offset` of a shard file.
struct Rectangle {
  std::size_t shard = 0;  // index into Manifest::shards
  Box box;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
  std::vector<std::uint32_t> blocks = {};  // CRC32C of each block (checksums.h); may be empty
};

struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::uint32_t crc32c = 0;  // of all row-major bytes of the tensor, independent of the layout
  std::vector<Rectangle> rectangles;  // cover every element of the tensor exactly once

  std::uint64_t bytes() const { return static_cast<std::uint64_t>(shape.count()) * size_of(dtype); }
};

struct StoredFile {
  std::string name;  // "shard-00000-of-00001.h5"
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;  // of the whole file
};

// Order of the checkpoints of a run: greater is newer.
struct Lineage {
  std::int64_t sequence = 0;
  std::int64_t step = 0;
  auto operator<=>(const Lineage&) const = default;  // NOLINT(modernize-use-nullptr): no pointer
};

// Contents of manifest.json. The text ends with a CRC32C of everything before it. Part of the file
// format: do not renumber.
struct Manifest {
  static constexpr int kFormat = 1;
  static constexpr const char* kFileName = "manifest.json";
  static constexpr const char* kViewName = "state.h5";
  static constexpr std::uint64_t kMaxText = 256u << 20;

  std::string run;                     // UUID of the run, the same for all its checkpoints
  std::int64_t step = 0;               // completed optimizer steps
  std::optional<std::int64_t> parent;  // the checkpoint from which the run continued
  std::int64_t sequence = 0;           // number of earlier commits in the run folder
  std::string written;                 // UTC, "2025-01-31T12:00:00Z"; informational
  std::vector<StoredFile> shards;
  StoredFile view;                    // state.h5; informational; no name: see in_memory
  std::vector<StoredTensor> tensors;  // by ascending name
  std::string config;                 // effective config, TOML
  std::string tokenizer;              // hash of the tokenizer; may be empty
  nlohmann::json data = nlohmann::json::object();      // data ledger
  nlohmann::json scalars = nlohmann::json::object();   // optimizer step and similar values
  nlohmann::json digests = nlohmann::json::object();   // loss, grad norm ... of this step, as bits
  nlohmann::json layout = nlohmann::json::object();    // of the run that wrote it; informational
  nlohmann::json versions = nlohmann::json::object();  // of the program and its libraries
  std::uint32_t state_crc = 0;                         // see state_crc_of

  std::uint64_t bytes() const;  // total size of shards and view
  Lineage lineage() const { return {sequence, step}; }
  // Whether it describes a snapshot in memory, whose shards are raw tensor bytes without HDF5 and
  // which has no view.
  bool in_memory() const { return view.name.empty(); }
  const StoredTensor* find(std::string_view tensor) const;
};

// The CRC32C of one line "name dtype d0,d1 crc32c\n" (crc32c as eight hex digits) per tensor in
// order of names; independent of the layout.
std::uint32_t state_crc_of(const std::vector<StoredTensor>& tensors);

std::string to_text(const Manifest& manifest);

// Validates untrusted text: its seal, keys and types, and the manifest. Throws CheckpointError
// naming `from`, the key and the problem.
Manifest parse_manifest(std::string_view text, const std::string& from);
// Validates names and sizes, that boxes cover their tensors and are inside their shards, and the
// state_crc. Throws CheckpointError.
void check_manifest(const Manifest& manifest, const std::string& from);

// Reads the manifest of a committed checkpoint folder; also checks that its step matches the
// folder's name.
Manifest read_manifest(const std::filesystem::path& folder);

// Completes a JSON object, given without its closing brace, with a last key "crc32c": the CRC32C of
// all bytes before the comma that precedes the key.
std::string sealed(std::string body);

// Throws CheckpointError naming `from` unless `text` ends with this key and the checksum matches.
void check_seal(std::string_view text, const std::string& from);

}  // namespace trireme::checkpoint
