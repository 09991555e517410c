#include "checkpoint/load.h"

#include "checkpoint/loader.h"
#include "model/base/file.h"

namespace trireme::checkpoint {

void check_files(const std::filesystem::path& folder, const Manifest& manifest) {
  const auto check = [&](const StoredFile& file) {
    const std::uint64_t size = File::open_read(folder / file.name).size();
    if (size == file.bytes) return;
    throw CheckpointError(say((folder / file.name).string(), ": ", size, " bytes, expected ",
                              file.bytes, size < file.bytes ? ": it is truncated" : ""));
  };
  for (const StoredFile& shard : manifest.shards) check(shard);
}

void load_pieces(const std::filesystem::path& folder, const Manifest& manifest,
                 std::span<const Piece> wanted, Match match) {
  check_match(manifest, wanted, match, folder.string());
  check_files(folder, manifest);
  Loader loader(folder, manifest, wanted);
  loader.read(plan_reads(manifest, {&wanted, 1}, 0).own);
  loader.verify_memory();
}

}  // namespace trireme::checkpoint
