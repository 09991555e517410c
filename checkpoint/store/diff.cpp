#include "checkpoint/store/diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "checkpoint/format/boxes.h"
#include "checkpoint/format/checksums.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/values.h"
#include "checkpoint/read/window.h"
#include "model/base/error.h"
#include "model/base/hex.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

struct Side {
  explicit Side(const fs::path& folder)
      : manifest(read_manifest(folder)), files(folder, manifest) {}
  Manifest manifest;
  ShardFiles files;
  AlignedBuffer buffer = make_aligned_buffer();
};

void verify(Side& side, const StoredTensor& tensor) {
  for (const Rectangle& r : tensor.rectangles) {
    const File& file = side.files[r.shard];
    const std::uint32_t got = crc_of_range(file, {r.offset, r.bytes}, side.buffer);
    if (got == r.crc32c) continue;
    throw CheckpointError(say(file.path().string(), ": damaged: tensor ", tensor.name, ": CRC32C ",
                              hex(got), ", expected ", hex(r.crc32c)));
  }
}

// Difference between the values of two tensors.
struct Distance {
  std::int64_t elements = 0;  // elements with different bits
  double largest = 0;         // largest absolute difference
  bool numbers = true;        // false: some values are NaN or infinite

  void add(std::span<const std::byte> a, std::span<const std::byte> b, DType dtype) {
    if (std::memcmp(a.data(), b.data(), a.size()) == 0) return;
    const std::size_t element = size_of(dtype);
    for (std::size_t at = 0; at < a.size(); at += element) {
      const auto left = a.subspan(at, element);
      const auto right = b.subspan(at, element);
      if (std::memcmp(left.data(), right.data(), element) == 0) continue;
      ++elements;
      double difference = 0;
      for_each_value(left, dtype, [&](double value) { difference += value; });
      for_each_value(right, dtype, [&](double value) { difference -= value; });
      if (!std::isfinite(difference))
        numbers = false;
      else
        largest = std::max(largest, std::abs(difference));
    }
  }
};

Distance distance(Side& a, const StoredTensor& in_a, Side& b, const StoredTensor& in_b) {
  Distance distance;
  const std::size_t element = size_of(in_a.dtype);
  for (const Rectangle& ra : in_a.rectangles) {
    for (const Rectangle& rb : in_b.rectangles) {
      const auto part = intersection(ra.box, rb.box);
      if (!part) continue;
      Window left(a.files[ra.shard], {ra.offset, ra.bytes}, a.buffer);
      Window right(b.files[rb.shard], {rb.offset, rb.bytes}, b.buffer);
      for_each_run(*part, ra.box, rb.box, [&](auto at_a, auto at_b, auto count) {
        const std::size_t bytes = static_cast<std::size_t>(count) * element;
        for (std::size_t done = 0; done < bytes;) {
          const std::size_t n = std::min(bytes - done, kWindow);
          distance.add(left.at(static_cast<std::uint64_t>(at_a) * element + done, n),
                       right.at(static_cast<std::uint64_t>(at_b) * element + done, n), in_a.dtype);
          done += n;
        }
      });
    }
  }
  return distance;
}

std::string clipped(const std::string& text) {
  constexpr std::size_t kMost = 120;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

void compare_json(const char* name, const nlohmann::json& a, const nlohmann::json& b,
                  std::vector<Difference>& differences) {
  for (const auto& [key, value] : a.items()) {
    const auto other = b.find(key);
    if (other != b.end() && *other == value) continue;
    differences.push_back(
        {say(name, ".", key), say(clipped(value.dump()), " and ",
                                  other == b.end() ? "nothing" : clipped(other->dump()))});
  }
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key)) {
      differences.push_back({say(name, ".", key), say("nothing and ", clipped(value.dump()))});
    }
  }
}

void compare_tensor(Side& a, const StoredTensor& in_a, Side& b, const StoredTensor& in_b,
                    std::vector<Difference>& differences) {
  verify(a, in_a);
  verify(b, in_b);
  if (in_a.shape != in_b.shape || in_a.dtype != in_b.dtype) {
    differences.push_back({in_a.name, say(name_of(in_a.dtype), " ", in_a.shape, " and ",
                                          name_of(in_b.dtype), " ", in_b.shape)});
    return;
  }
  const Distance found = distance(a, in_a, b, in_b);
  if (found.elements == 0) return;
  differences.push_back(
      {in_a.name, say(found.elements, " of ", in_a.shape.count(), " elements differ, by at most ",
                      found.largest, found.numbers ? "" : ", and some are not finite")});
}

}  // namespace

std::vector<Difference> compare(const fs::path& from_a, const fs::path& from_b) {
  Side a(from_a);
  Side b(from_b);
  std::vector<Difference> differences;
  if (a.manifest.step != b.manifest.step) {
    differences.push_back({"step", say(a.manifest.step, " and ", b.manifest.step)});
  }
  compare_json("data", a.manifest.data, b.manifest.data, differences);
  compare_json("scalars", a.manifest.scalars, b.manifest.scalars, differences);
  compare_json("digests", a.manifest.digests, b.manifest.digests, differences);
  if (a.manifest.tokenizer != b.manifest.tokenizer) {
    differences.push_back({"tokenizer", say(a.manifest.tokenizer, " and ", b.manifest.tokenizer)});
  }
  for (const StoredTensor& tensor : a.manifest.tensors) {
    const StoredTensor* other = b.manifest.find(tensor.name);
    if (other) {
      compare_tensor(a, tensor, b, *other, differences);
    } else {
      differences.push_back({tensor.name, "only in the first"});
    }
  }
  for (const StoredTensor& tensor : b.manifest.tensors) {
    if (!a.manifest.find(tensor.name)) {
      differences.push_back({tensor.name, "only in the second"});
    }
  }
  return differences;
}

}  // namespace trireme::checkpoint
