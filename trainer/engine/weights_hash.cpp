#include "trainer/engine/weights_hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <string_view>
#include <vector>

#include "checkpoint/format/checksums.h"
#include "checkpoint/format/names.h"
#include "model/device/copy.h"
#include "model/device/memory.h"
#include "parallel/comm/team.h"

namespace trireme {
namespace {

// Reads a tensor's bytes in order on the host; those of a device through pinned memory.
class HostReader {
 public:
  HostReader(Stream& stream, const Tensor& tensor) : stream_(stream), tensor_(tensor) {
    if (tensor.device.is_cuda()) {
      window_ = Memory::pinned(std::min(kBytes, tensor.bytes()), tensor.device);
    }
  }
  // `bytes`: at most checkpoint::kWindow. Valid until the next call.
  std::span<const std::byte> read(std::size_t at, std::size_t bytes) {
    if (!tensor_.device.is_cuda()) return {tensor_.data + at, bytes};
    if (at < first_ || at + bytes > end_) {
      first_ = at;
      end_ = std::min(at + kBytes, tensor_.bytes());
      copy_bytes(stream_, window_.data(), tensor_.data + first_, end_ - first_);
      stream_.synchronize();
    }
    return {window_.data() + (at - first_), bytes};
  }

 private:
  static constexpr std::size_t kBytes = std::size_t{64} << 20;
  static_assert(kBytes >= checkpoint::kWindow);
  Stream& stream_;
  Tensor tensor_;
  Memory window_;
  std::size_t first_ = 0, end_ = 0;  // of the window
};

// Contribution of a part of a parameter to the CRC32C of the whole. The box's elements begin `from`
// elements into what is read.
std::uint32_t share_of(const Param& param, const Box& box, HostReader& masters, DType dtype,
                       std::int64_t from) {
  std::vector<float> line;
  const auto read = [&](std::uint64_t at, std::size_t bytes) {
    const std::size_t first = static_cast<std::size_t>(from) + at / sizeof(float);
    const std::size_t count = bytes / sizeof(float);
    if (dtype == DType::kF32) return masters.read(first * sizeof(float), bytes);
    line.clear();
    constexpr std::size_t kDoubles = checkpoint::kWindow / sizeof(double);
    for (std::size_t done = 0; done < count; done += kDoubles) {
      const std::size_t n = std::min(kDoubles, count - done);
      const auto doubles = masters.read((first + done) * sizeof(double), n * sizeof(double));
      const auto* const values = reinterpret_cast<const double*>(doubles.data());
      line.insert(line.end(), values, values + n);
    }
    return std::as_bytes(std::span<const float>(line));
  };
  return checkpoint::digest_of(box, param.spec.shape, sizeof(float), read).share;
}

std::string line(std::string_view name, std::uint32_t crc) {
  return fmt::format("{} {:08x}\n", name, crc);
}

std::uint64_t hash_of(const std::string& lines) {
  return XXH3_64bits(lines.data(), lines.size());
}

}  // namespace

std::uint64_t weights_hash(const ParamStore& params, Stream& stream, Communicator& ranks) {
  stream.synchronize();
  const Team team(ranks);
  const auto reports = team.together([&] {
    std::string text;
    const Tensor& masters = params.masters();
    HostReader reader(stream, masters);
    for (const ParamShard& shard : params.shards()) {
      const Param& param = *shard.param;
      const auto size = static_cast<std::int64_t>(size_of(masters.dtype));
      const std::int64_t first = (shard.master.data - masters.data) / size;
      for (const BoxOfRun& part : boxes_of_run(param.box, shard.first, shard.count())) {
        const Shape &from = part.box.from, &extent = part.box.extent;
        text += fmt::format("{} {},{},{} {} {}\n", param.spec.name, from[0], from[from.rank() - 1],
                            extent.count(), param.spec.shape.count(),
                            share_of(param, part.box, reader, masters.dtype, first + part.at));
      }
    }
    return text;
  });
  struct Whole {
    std::uint64_t bytes = 0;
    std::uint32_t remainder = 0;
    std::set<std::string> parts;  // seen: a replica counts once
  };
  std::map<std::string, Whole> wholes;
  for (const std::string& report : reports) {
    std::istringstream lines(report);
    std::string name, from;
    std::uint64_t count = 0;
    std::uint32_t share = 0;
    while (lines >> name >> from >> count >> share) {
      Whole& whole = wholes[name];
      whole.bytes = count * sizeof(float);
      if (whole.parts.insert(from).second) whole.remainder ^= share;
    }
  }
  std::string text;
  for (const auto& [name, whole] : wholes) {
    text += line(name, checkpoint::crc_from(whole.remainder, whole.bytes));
  }
  return hash_of(text);
}

std::uint64_t weights_hash(const checkpoint::Manifest& manifest) {
  std::string text;
  for (const checkpoint::StoredTensor& tensor : manifest.tensors) {
    if (!tensor.name.starts_with(checkpoint::kWeightsPrefix)) continue;
    text += line(tensor.name.substr(checkpoint::kWeightsPrefix.size()), tensor.crc32c);
  }
  return hash_of(text);
}

}  // namespace trireme
