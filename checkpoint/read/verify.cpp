#include <algorithm>
#include <atomic>
#include <thread>

#include "checkpoint/format/boxes.h"
#include "checkpoint/format/checksums.h"
#include "checkpoint/read/load.h"
#include "checkpoint/read/window.h"
#include "model/base/file.h"
#include "model/base/hex.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

struct Part {
  const StoredTensor* tensor;
  const Rectangle* rectangle;
};

// Problems of one file, given the boxes it contains.
std::vector<std::string> check_file(const fs::path& path, const StoredFile& file,
                                    const std::vector<Part>& parts) {
  std::vector<std::string> problems;
  std::vector<Range> ranges;
  for (const Part& part : parts) ranges.push_back({part.rectangle->offset, part.rectangle->bytes});
  try {
    if (const auto size = File::open_read(path).size(); size != file.bytes) {
      problems.push_back(say(path.string(), ": ", size, " bytes, expected ", file.bytes));
      return problems;
    }
    const Scan scan = scan_file(path, ranges);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const std::uint32_t expected = parts[i].rectangle->crc32c;
      if (scan.ranges[i] == expected) continue;
      problems.push_back(say(path.string(), ": damaged: tensor ", parts[i].tensor->name,
                             " at byte ", parts[i].rectangle->offset, ": CRC32C ",
                             hex(scan.ranges[i]), ", expected ", hex(expected)));
    }
    if (scan.crc32c != file.crc32c && problems.empty()) {
      problems.push_back(say(path.string(), ": damaged outside the tensors: CRC32C ",
                             hex(scan.crc32c), ", expected ", hex(file.crc32c)));
    }
  } catch (const Error& error) {
    problems.emplace_back(error.what());
  }
  return problems;
}

// By shard.
std::vector<std::vector<std::string>> check_shards(const fs::path& folder, const Manifest& manifest,
                                                   const std::vector<std::vector<Part>>& parts,
                                                   int threads) {
  std::vector<std::vector<std::string>> problems(parts.size());
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t shard = next++; shard < parts.size(); shard = next++) {
      const StoredFile& file = manifest.shards[shard];
      problems[shard] = check_file(folder / file.name, file, parts[shard]);
    }
  };
  std::vector<std::jthread> helpers;
  const int useful = std::min(threads, static_cast<int>(parts.size()));
  for (int i = 1; i < useful; ++i) helpers.emplace_back(work);
  work();
  helpers.clear();
  return problems;
}

// Verifies the CRCs of whole tensors, which are independent of the layout, from those of their
// boxes, which were verified before.
void check_tensors(const fs::path& folder, const Manifest& manifest,
                   std::vector<std::string>& problems) {
  ShardFiles files(folder, manifest);
  const AlignedBuffer buffer = make_aligned_buffer();
  for (const StoredTensor& tensor : manifest.tensors) {
    std::uint32_t remainder = 0;
    for (const Rectangle& rectangle : tensor.rectangles) {
      const std::size_t element = size_of(tensor.dtype);
      if (const auto share = share_of(rectangle.box, tensor.shape, element, rectangle.crc32c)) {
        remainder ^= *share;
        continue;
      }
      Window window(files[rectangle.shard], {rectangle.offset, rectangle.bytes}, buffer);
      const auto read = [&](std::uint64_t at, std::size_t n) { return window.at(at, n); };
      remainder ^= digest_of(rectangle.box, tensor.shape, element, read).share;
    }
    const std::uint32_t got = crc_from(remainder, tensor.bytes());
    if (got == tensor.crc32c) continue;
    problems.push_back(say(folder.string(), ": tensor ", tensor.name, " as a whole: CRC32C ",
                           hex(got), ", expected ", hex(tensor.crc32c)));
  }
}

void check_strangers(const fs::path& folder, const Manifest& manifest,
                     std::vector<std::string>& problems) {
  std::error_code why;
  for (const auto& entry : fs::directory_iterator(folder, why)) {
    const std::string name = entry.path().filename().string();
    const bool known = name == Manifest::kFileName || name == manifest.view.name ||
                       std::any_of(manifest.shards.begin(), manifest.shards.end(),
                                   [&](const StoredFile& shard) { return shard.name == name; });
    if (!known) problems.push_back(say(entry.path().string(), ": not part of the checkpoint"));
  }
}

}  // namespace

std::vector<std::string> problems_of(const fs::path& folder, int threads) {
  std::vector<std::string> problems;
  Manifest manifest;
  try {
    manifest = read_manifest(folder);
  } catch (const Error& error) {
    problems.emplace_back(error.what());
    return problems;
  }
  std::vector<std::vector<Part>> parts(manifest.shards.size());
  for (const StoredTensor& tensor : manifest.tensors) {
    for (const Rectangle& rectangle : tensor.rectangles) {
      parts[rectangle.shard].push_back({&tensor, &rectangle});
    }
  }
  for (const auto& of_file : check_shards(folder, manifest, parts, threads)) {
    problems.insert(problems.end(), of_file.begin(), of_file.end());
  }
  if (!manifest.in_memory()) {
    const auto of_view = check_file(folder / manifest.view.name, manifest.view, {});
    problems.insert(problems.end(), of_view.begin(), of_view.end());
  }
  if (problems.empty()) check_tensors(folder, manifest, problems);
  check_strangers(folder, manifest, problems);
  return problems;
}

}  // namespace trireme::checkpoint
