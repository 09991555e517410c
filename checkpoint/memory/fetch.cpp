#include "checkpoint/memory/fetch.h"

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "checkpoint/format/boxes.h"
#include "checkpoint/format/checksums.h"
#include "checkpoint/read/window.h"
#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::checkpoint {
namespace {

using Boxes = std::map<std::string, std::vector<Box>>;

Boxes boxes_on(int node, const Nodes& nodes, std::span<const std::vector<Piece>> wanted) {
  Boxes boxes;
  for (const int rank : nodes.ranks(node)) {
    for (const Piece& piece : wanted[static_cast<std::size_t>(rank)]) {
      boxes[piece.tensor].push_back(piece.box);
    }
  }
  return boxes;
}

bool touches(const Box& box, const std::vector<Box>& others) {
  return std::any_of(others.begin(), others.end(),
                     [&](const Box& other) { return intersection(box, other).has_value(); });
}

bool holds(const std::vector<int>& nodes, int node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

// As whole words, the unit of a message.
Tensor words(std::byte* data, std::uint64_t bytes) {
  return {data, DType::kI32, Shape{static_cast<std::int64_t>((bytes + 3) / 4)}, Device{}};
}

void write_at(const std::filesystem::path& path, std::uint64_t offset,
              std::span<const std::byte> bytes) {
  File file = File::open_write(path);
  require(::lseek(file.descriptor(), static_cast<off_t>(offset), SEEK_SET) >= 0, path.string(),
          ": no place ", offset);
  file.write_all(bytes);
}

}  // namespace

std::vector<Fetch> plan_fetches(const Manifest& manifest, std::span<const std::vector<int>> holders,
                                const Nodes& nodes, std::span<const std::vector<Piece>> wanted) {
  std::vector<Fetch> fetches;
  for (int node = 0; node < nodes.count(); ++node) {
    const Boxes boxes = boxes_on(node, nodes, wanted);
    for (const StoredTensor& tensor : manifest.tensors) {
      const auto asked = boxes.find(tensor.name);
      if (asked == boxes.end()) continue;
      for (const Rectangle& rectangle : tensor.rectangles) {
        const std::vector<int>& from = holders[rectangle.shard];
        if (holds(from, node) || !touches(rectangle.box, asked->second)) continue;
        fetches.push_back({nodes.leader(from.front()), nodes.leader(node), rectangle.shard,
                           rectangle.offset, rectangle.bytes});
      }
    }
  }
  return fetches;
}

void carry_out(std::span<const Fetch> fetches, const Manifest& manifest, Communicator& ranks,
               const std::filesystem::path& from, const std::filesystem::path& to) {
  const AlignedBuffer buffer = make_aligned_buffer();
  std::string failure;
  const auto attempt = [&](const auto& work) {
    try {
      work();
    } catch (const Error& error) {
      if (failure.empty()) failure = error.what();
      std::memset(buffer.get(), 0, kWindow);
    }
  };
  Stream stream;
  for (const Fetch& fetch : fetches) {
    const std::string& name = manifest.shards[fetch.shard].name;
    for (std::uint64_t done = 0; done < fetch.bytes; done += kWindow) {
      const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(kWindow, fetch.bytes - done));
      const std::span<std::byte> part(buffer.get(), n);
      if (ranks.rank() == fetch.from) {
        attempt([&] { File::open_read(from / name).read_at(fetch.offset + done, part); });
        ranks.send(stream, words(buffer.get(), n), fetch.to);
      } else if (ranks.rank() == fetch.to) {
        ranks.receive(stream, words(buffer.get(), n), fetch.from);
        attempt([&] { write_at(to / name, fetch.offset + done, part); });
      }
    }
  }
  if (!failure.empty()) throw EnvironmentError(failure);
}

}  // namespace trireme::checkpoint
