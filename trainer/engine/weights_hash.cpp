#include "trainer/engine/weights_hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include "checkpoint/format/checksums.h"
#include "parallel/comm/team.h"

namespace trireme {
namespace {

constexpr std::string_view kWeights = "model/";  // before their names in a checkpoint

// Contribution of a part of a parameter to the CRC32C of the whole.
std::uint32_t share_of(const Param& param, const Box& box, const Tensor& master) {
  std::vector<float> line;
  const auto read = [&](std::uint64_t at, std::size_t bytes) {
    const std::size_t first = at / sizeof(float), count = bytes / sizeof(float);
    if (master.dtype == DType::kF32) {
      return std::span<const std::byte>(master.data + at, bytes);
    }
    const double* from = master.as<double>() + first;
    line.assign(from, from + count);
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

std::uint64_t weights_hash(const ParamStore& params, const HostMirror& masters,
                           Communicator& ranks) {
  const Team team(ranks);
  const auto reports = team.together([&] {
    std::string text;
    for (const ParamShard& shard : params.shards()) {
      const Param& param = *shard.param;
      const Tensor run = masters.host(shard.master);
      for (const BoxOfRun& part : boxes_of_run(param.box, shard.first, shard.count())) {
        const Shape &from = part.box.from, &extent = part.box.extent;
        text += fmt::format("{} {},{},{} {} {}\n", param.spec.name, from[0], from[from.rank() - 1],
                            extent.count(), param.spec.shape.count(),
                            share_of(param, part.box, run.slice(part.at, extent.count())));
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
    if (!tensor.name.starts_with(kWeights)) continue;
    text += line(tensor.name.substr(kWeights.size()), tensor.crc32c);
  }
  return hash_of(text);
}

}  // namespace trireme
