#include "data/megatron_order.h"

#include <gtest/gtest.h>

#include "data/indexed_dataset_writer.h"
#include "data/sequencer.h"
#include "model/base/error.h"
#include "tests/data/image.h"
#include "tests/data/megatron_table.h"

namespace trireme::data {
namespace {

constexpr std::int64_t kSeqLen = 32;

// As megatron_reference.py makes them up.
std::vector<std::int32_t> sizes_of(int which, int documents) {
  std::uint64_t state = 12345 + static_cast<std::uint64_t>(which);
  std::vector<std::int32_t> sizes;
  for (int d = 0; d < documents; ++d) {
    state = (state * 1103515245 + 12345) % (std::uint64_t{1} << 31);
    sizes.push_back(static_cast<std::int32_t>(1 + state / 65536 % 90));
  }
  return sizes;
}

// FNV-1a over whole numbers.
class Digest {
 public:
  void add(std::int64_t value) {
    state_ = (state_ ^ static_cast<std::uint64_t>(value)) * 0x100000001b3;
  }
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325;
};

TEST(MegatronOrderTest, its_indices_are_those_of_numpy) {
  for (const IndicesRow& row : kIndices) {
    MegatronPart part{sizes_of(row.which, row.documents), 0};
    for (const std::int32_t size : part.sizes) part.tokens += size;
    const MegatronIndices indices(part, kSeqLen, row.samples, row.seed);
    const auto name = testing::Message() << row.which << " " << row.samples << " " << row.seed;
    ASSERT_EQ(indices.samples(), row.built) << name;
    ASSERT_EQ(indices.documents().size(), row.entries) << name;
    Digest documents, samples, shuffle;
    for (const std::int32_t document : indices.documents()) documents.add(document);
    for (std::uint64_t r = 0; r <= row.built; ++r) {
      samples.add(indices.place(r).at);
      samples.add(indices.place(r).offset);
    }
    for (std::uint64_t i = 0; i < row.built; ++i) {
      shuffle.add(static_cast<std::int64_t>(indices.row(i)));
    }
    EXPECT_EQ(documents.value(), row.document) << name;
    EXPECT_EQ(samples.value(), row.sample) << name;
    EXPECT_EQ(shuffle.value(), row.shuffle) << name;
  }
}

TEST(MegatronOrderTest, its_blend_is_that_of_numpy_and_can_be_counted) {
  for (const BlendRow& row : kBlends) {
    const MegatronBlend blend(row.weights, row.samples);
    ASSERT_EQ(blend.size(), row.size);
    Digest datasets, indices;
    std::vector<std::uint64_t> seen(row.weights.size(), 0);
    for (std::uint64_t sample = 0; sample < 2 * row.size; ++sample) {
      EXPECT_EQ(blend.counts(sample), seen);
      const Blend::Pick pick = blend(sample);
      EXPECT_EQ(pick.index, seen[pick.source]++);
      if (sample >= row.size) continue;
      datasets.add(static_cast<std::int64_t>(pick.source));
      indices.add(static_cast<std::int64_t>(pick.index));
    }
    EXPECT_EQ(datasets.value(), row.dataset);
    EXPECT_EQ(indices.value(), row.index);
    for (std::size_t i = 0; i < row.built.size(); ++i) {
      EXPECT_EQ(blend.samples_of(i), row.built[i]);
    }
  }
}

// Document d of the set holds d, 1000 + d, 2000 + d, ...
void write_megatron_set(const std::filesystem::path& prefix,
                        const std::vector<std::int32_t>& sizes) {
  IndexedDatasetWriter writer(prefix, TokenType::kI32);
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    std::vector<std::int32_t> ids(sizes[d]);
    for (std::size_t t = 0; t < ids.size(); ++t) ids[t] = static_cast<std::int32_t>(1000 * t + d);
    writer.append(ids);
    writer.end_document();
  }
  writer.finish();
}

TEST(MegatronOrderTest, samples_go_through_the_shuffled_documents_end_to_end) {
  const Folder folder;
  const std::vector<std::int32_t> sizes = sizes_of(0, 300);
  write_megatron_set(folder / "set", sizes);
  MegatronPart part{sizes, 0};
  for (const std::int32_t size : sizes) part.tokens += size;
  const MegatronIndices indices(part, kSeqLen, 500, 7);
  std::vector<std::int32_t> stream;
  for (const std::int32_t d : indices.documents()) {
    for (std::int32_t t = 0; t < sizes[d]; ++t) stream.push_back(1000 * t + d);
  }
  for (const bool mask : {false, true}) {
    const SampleSource source(
        {{.prefix = folder / "set"}},
        {.seq_len = kSeqLen, .document_mask = mask, .seed = 7, .megatron_samples = 500});
    std::vector<std::int32_t> ids(kSeqLen), targets(kSeqLen), positions(kSeqLen), start(kSeqLen);
    for (std::uint64_t sample = 0; sample < indices.samples() + 3; ++sample) {
      const std::uint64_t row = indices.row(sample % indices.samples());
      const auto first = stream.begin() + static_cast<std::ptrdiff_t>(row * kSeqLen);
      const std::int64_t valid = source.fill(sample, {1, kSeqLen, ids, targets, positions, start});
      EXPECT_EQ(ids, std::vector(first, first + kSeqLen));
      std::int64_t ends = 0;
      for (std::int64_t t = 0; t < kSeqLen; ++t) {
        const bool is_last = mask && first[t] / 1000 + 1 == sizes[first[t] % 1000];
        EXPECT_EQ(targets[t], is_last ? -1 : first[t + 1]);
        EXPECT_EQ(positions[t], t - start[t]);
        EXPECT_TRUE(mask || start[t] == 0);
        ends += is_last ? 1 : 0;
      }
      EXPECT_EQ(valid, kSeqLen - ends);
      std::int64_t at = 0;
      for (const DocumentSlice& slice : source.documents_of(sample)) {
        EXPECT_EQ(slice.at, at);
        EXPECT_EQ(ids[slice.at], 1000 * slice.first + slice.document);
        at += slice.count;
      }
      EXPECT_EQ(at, kSeqLen);
    }
  }
}

TEST(MegatronOrderTest, a_blend_takes_each_source_in_its_own_order) {
  const Folder folder;
  write_megatron_set(folder / "a", sizes_of(0, 300));
  write_megatron_set(folder / "b", sizes_of(1, 300));
  const SequenceSpec sequence{.seq_len = kSeqLen, .seed = 1234, .megatron_samples = 600};
  const SampleSource source(
      {{.prefix = folder / "a", .weight = 0.3}, {.prefix = folder / "b", .weight = 0.7}}, sequence);
  const MegatronBlend blend(std::vector{0.3, 0.7}, 600);
  MegatronPart part{sizes_of(1, 300), 0};
  for (const std::int32_t size : part.sizes) part.tokens += size;
  const MegatronIndices second(part, kSeqLen, blend.samples_of(1), 1234);
  for (std::uint64_t sample = 0; sample < 600; ++sample) {
    const Origin from = source.origin(sample);
    EXPECT_EQ(from.source, blend(sample).source);
    EXPECT_EQ(from.index, blend(sample).index);
    if (from.source == 0) continue;
    EXPECT_EQ(from.window, second.row(from.index));
  }
  EXPECT_EQ(source.consumed(600), blend.counts(600));
}

TEST(MegatronOrderTest, what_it_cannot_count_is_refused) {
  const Folder folder;
  write_megatron_set(folder / "a", {40});
  const auto open = [&](std::uint64_t samples) {
    return complaint<ConfigError>([&] {
      SampleSource({{.prefix = folder / "a"}}, {.seq_len = 32, .megatron_samples = samples});
    });
  };
  EXPECT_EQ(open(5), "");
  EXPECT_TRUE(has(open(std::uint64_t{1} << 40), "give a smaller data.order_samples"));
}

}  // namespace
}  // namespace trireme::data
