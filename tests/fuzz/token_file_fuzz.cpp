// Opens and reads through token files made of the input: two bytes say how long the .idx is, the
// rest after it is the .bin. The same pair is tried as Megatron's and as datatrove's, and both
// together as a shard of llm.c or LLM.Q. Whatever the bytes, a reader refuses them with a DataError
// or stays inside them.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "data/datatrove_shard.h"
#include "data/headed_shard.h"
#include "data/indexed_dataset.h"
#include "model/base/error.h"

namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

void read_all(const trireme::data::TokenStream& dataset) {
  std::int64_t begin = 0;
  for (std::int64_t d = 0; d < dataset.documents(); ++d) {
    expect(dataset.document_begin(d) == begin);
    std::vector<std::int32_t> ids(static_cast<std::size_t>(dataset.document_size(d)));
    dataset.read(begin, ids);
    if (!ids.empty()) {
      expect(dataset.document_at(begin) == d);
      expect(dataset.document_at(begin + dataset.document_size(d) - 1) == d);
      expect(static_cast<std::int32_t>(dataset.token(begin)) == ids.front());
    }
    begin += dataset.document_size(d);
  }
  expect(begin == dataset.tokens());
  const auto outside = dataset.find_outside(100, 0, dataset.tokens());
  for (std::int64_t at = 0; at < dataset.tokens(); ++at) {
    const bool good = dataset.token(at) >= 0 && dataset.token(at) < 100;
    expect(good == (!outside || at < *outside) || (outside && at > *outside));
  }
  static_cast<void>(dataset.sampled_hash());
}

template <class Read>
void try_as(const Read& read) {
  try {
    read();
  } catch (const trireme::DataError&) {
    return;  // refused, with a message
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(2);
  const std::size_t split = std::min<std::size_t>(data[0] | data[1] << 8, bytes.size());
  const auto rest = bytes.subspan(split);
  try_as([&] { read_all(trireme::data::IndexedDataset(bytes.first(split), rest, "fuzz")); });
  try_as([&] { read_all(trireme::data::DatatroveShard(bytes.first(split), rest, "fuzz")); });
  try_as([&] { read_all(trireme::data::HeadedShard(bytes, "fuzz")); });
  return 0;
}
