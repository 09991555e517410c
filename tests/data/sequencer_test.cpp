#include "data/sequencer.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "data/batch_documents.h"
#include "data/indexed_dataset.h"
#include "data/indexed_dataset_writer.h"
#include "data/sidecar.h"
#include "model/base/error.h"
#include "tests/data/image.h"

namespace trireme::data {
namespace {

struct Sequence {
  explicit Sequence(std::int64_t seq_len)
      : ids(seq_len), targets(seq_len), positions(seq_len), document_start(seq_len) {}
  TokenBatch view() { return {1, std::ssize(ids), ids, targets, positions, document_start}; }
  std::vector<std::int32_t> ids, targets, positions, document_start;
};

void write_set(const std::filesystem::path& prefix,
               const std::vector<std::vector<std::int32_t>>& documents) {
  IndexedDatasetWriter writer(prefix, TokenType::kU16);
  for (const auto& document : documents) {
    writer.append(document);
    writer.end_document();
  }
  writer.finish();
}

// One document with the ids from `first`.
std::vector<std::int32_t> ids_from(std::int32_t first, std::size_t count) {
  std::vector<std::int32_t> ids(count);
  for (std::size_t i = 0; i < count; ++i) ids[i] = first + static_cast<std::int32_t>(i);
  return ids;
}

TEST(SampleSourceTest, the_document_mask_is_right_in_an_example_by_hand) {
  const Folder folder;
  write_set(folder / "set", {{1, 2, 3}, {}, {4}, {5, 6, 7, 8}, {9, 10, 11, 12, 13}});
  const SampleSource source({{.prefix = folder / "set"}},
                            {.seq_len = 6, .document_mask = true, .shuffle = false});
  ASSERT_EQ(source.samples_per_epoch(), 2u);
  EXPECT_EQ(source.windows(0), 2u);
  Sequence sequence(6);
  EXPECT_EQ(source.fill(0, sequence.view()), 4);
  EXPECT_EQ(sequence.ids, (std::vector{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(sequence.targets, (std::vector{2, 3, -1, -1, 6, 7}));
  EXPECT_EQ(sequence.positions, (std::vector{0, 1, 2, 0, 0, 1}));
  EXPECT_EQ(sequence.document_start, (std::vector{0, 0, 0, 3, 4, 4}));
  // The second window begins inside a document, and ends one before a document's end.
  EXPECT_EQ(source.fill(1, sequence.view()), 5);
  EXPECT_EQ(sequence.ids, (std::vector{7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(sequence.targets, (std::vector{8, -1, 10, 11, 12, 13}));
  EXPECT_EQ(sequence.positions, (std::vector{0, 1, 0, 1, 2, 3}));
  EXPECT_EQ(sequence.document_start, (std::vector{0, 0, 2, 2, 2, 2}));

  const auto slices = source.documents_of(1);
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[0].document, 3);
  EXPECT_EQ(slices[0].first, 2);
  EXPECT_EQ(slices[0].count, 2);
  EXPECT_EQ(slices[1].document, 4);
  EXPECT_EQ(slices[1].first, 0);
  EXPECT_EQ(slices[1].count, 4);
  EXPECT_EQ(slices[1].at, 2);
}

TEST(SampleSourceTest, the_documents_of_a_batch_are_listed_once_and_not_without_end) {
  const Folder folder;
  write_set(folder / "set", {{1, 2, 3}, {}, {4}, {5, 6, 7, 8}, {9, 10, 11, 12, 13}});
  const SampleSource source({{.prefix = folder / "set"}}, {.seq_len = 3, .shuffle = false});
  using DocumentIds = std::vector<DocumentId>;
  const auto list = [&](const LeftOut& left_out, std::uint64_t trained, std::size_t most) {
    return batch_documents(source, left_out, trained, 2, most);
  };
  EXPECT_EQ(list({}, 1, 9).documents, (DocumentIds{{0, 2}, {0, 3}, {0, 4}}));
  EXPECT_TRUE(list({}, 1, 3).complete);
  EXPECT_EQ(list({}, 1, 2).documents, (DocumentIds{{0, 2}, {0, 3}}));
  EXPECT_FALSE(list({}, 1, 2).complete);
  const LeftOut second({{1, 2}});
  EXPECT_EQ(list(second, 0, 9).documents, (DocumentIds{{0, 0}, {0, 3}, {0, 4}}));
}

TEST(SampleSourceTest, a_document_that_ends_with_the_window_has_no_target_there) {
  const Folder folder;
  write_set(folder / "set", {{1, 2, 3, 4}, {5, 6, 7, 8, 9}});
  const SampleSource source({{.prefix = folder / "set"}},
                            {.seq_len = 4, .document_mask = true, .shuffle = false});
  Sequence sequence(4);
  EXPECT_EQ(source.fill(0, sequence.view()), 3);
  EXPECT_EQ(sequence.targets, (std::vector{2, 3, 4, -1}));
  EXPECT_EQ(source.fill(1, sequence.view()), 4);
  EXPECT_EQ(sequence.targets, (std::vector{6, 7, 8, 9}));
}

TEST(SampleSourceTest, without_the_mask_every_target_is_the_next_token) {
  const Folder folder;
  write_set(folder / "set", {{1, 2, 3}, {4}, {5, 6, 7}});
  const SampleSource source({{.prefix = folder / "set"}}, {.seq_len = 3, .shuffle = false});
  Sequence sequence(3);
  EXPECT_EQ(source.fill(1, sequence.view()), 3);
  EXPECT_EQ(sequence.ids, (std::vector{4, 5, 6}));
  EXPECT_EQ(sequence.targets, (std::vector{5, 6, 7}));
  EXPECT_EQ(sequence.positions, (std::vector{0, 1, 2}));
  EXPECT_EQ(sequence.document_start, (std::vector{0, 0, 0}));
}

TEST(SampleSourceTest, an_epoch_visits_every_window_once_and_the_next_in_another_order) {
  const Folder folder;
  write_set(folder / "set", {ids_from(0, 1000), ids_from(1000, 2001)});
  const SampleSource source({{.prefix = folder / "set"}}, {.seq_len = 10, .seed = 3});
  ASSERT_EQ(source.samples_per_epoch(), 300u);
  std::vector<std::vector<std::uint64_t>> epochs(3);
  for (std::uint64_t sample = 0; sample < 900; ++sample) {
    const Origin origin = source.origin(sample);
    EXPECT_EQ(origin.epoch, sample / 300);
    epochs[sample / 300].push_back(origin.window);
    Sequence sequence(10);
    source.fill(sample, sequence.view());
    EXPECT_EQ(sequence.ids, ids_from(static_cast<std::int32_t>(10 * origin.window), 10));
    EXPECT_EQ(sequence.targets, ids_from(static_cast<std::int32_t>(10 * origin.window + 1), 10));
  }
  for (const auto& windows : epochs) {
    EXPECT_EQ(std::set(windows.begin(), windows.end()).size(), 300u);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
  const SampleSource other({{.prefix = folder / "set"}}, {.seq_len = 10, .seed = 4});
  std::vector<std::uint64_t> windows;
  for (std::uint64_t sample = 0; sample < 300; ++sample) {
    windows.push_back(other.origin(sample).window);
  }
  EXPECT_NE(windows, epochs[0]);
}

TEST(SampleSourceTest, sources_are_blended_by_weight_and_the_ledger_counts_them) {
  const Folder folder;
  write_set(folder / "a", {ids_from(0, 101)});
  write_set(folder / "b", {ids_from(1000, 501)});
  const SampleSource source(
      {{.prefix = folder / "a", .weight = 3}, {.prefix = folder / "b", .weight = 1}},
      {.seq_len = 10, .seed = 1});
  EXPECT_EQ(source.samples_per_epoch(), 60u);
  EXPECT_EQ(source.total_tokens(), 602u);
  std::vector<std::uint64_t> seen(2, 0);
  for (std::uint64_t sample = 0; sample < 400; ++sample) {
    EXPECT_EQ(source.consumed(sample), seen);
    const Origin origin = source.origin(sample);
    EXPECT_EQ(origin.index, seen[origin.source]++);
    Sequence sequence(10);
    source.fill(sample, sequence.view());
    EXPECT_EQ(sequence.ids[0] >= 1000, origin.source == 1);
  }
  EXPECT_EQ(seen, (std::vector<std::uint64_t>{300, 100}));
}

TEST(SampleSourceTest, sources_go_on_where_they_were_when_the_mixture_changes) {
  const Folder folder;
  write_set(folder / "a", {ids_from(0, 201)});
  write_set(folder / "b", {ids_from(1000, 301)});
  write_set(folder / "c", {ids_from(2000, 101)});
  const SequenceSpec sequence{.seq_len = 10, .seed = 1};
  const SourceSpec a{.prefix = folder / "a", .weight = 3}, b{.prefix = folder / "b", .weight = 1};
  const SourceSpec c{.prefix = folder / "c"}, more_b{.prefix = folder / "b", .weight = 0.7};
  const SampleSource alone({a, b}, sequence);
  // b alone from sample 37 on, then c and b, then a again.
  const SampleSource staged({a, b}, sequence, {{37, {more_b}}, {50, {c, more_b}}, {123, {a}}});
  ASSERT_EQ(staged.sources(), 3u);
  EXPECT_EQ(staged.source(2).prefix, folder / "c");
  std::vector<std::uint64_t> seen(3, 0);
  std::set<std::pair<std::size_t, std::uint64_t>> windows[2];  // of a and b, by epoch
  for (std::uint64_t sample = 0; sample < 200; ++sample) {
    EXPECT_EQ(staged.consumed(sample), seen) << sample;
    const Origin origin = staged.origin(sample);
    EXPECT_EQ(origin.index, seen[origin.source]++) << sample;
    if (sample < 37) {
      EXPECT_EQ(origin.source, alone.origin(sample).source);
      EXPECT_EQ(origin.window, alone.origin(sample).window);
    } else if (sample < 50 || sample >= 123) {
      EXPECT_EQ(origin.source, sample < 50 ? 1u : 0u);
    } else {
      EXPECT_NE(origin.source, 0u);
    }
    if (origin.source < 2) {
      EXPECT_TRUE(windows[origin.source].emplace(origin.epoch, origin.window).second) << sample;
    }
  }
  // What a fingerprint has to say of the sources that have been trained on, and of no others.
  EXPECT_TRUE(staged.agrees(alone.fingerprint(), 50));
  EXPECT_FALSE(staged.agrees(alone.fingerprint(), 60));
  EXPECT_TRUE(alone.agrees(staged.fingerprint(), 60));
  write_set(folder / "b", {ids_from(1001, 301)});
  EXPECT_FALSE(alone.agrees(SampleSource({a, b}, sequence).fingerprint(), 8));
  EXPECT_TRUE(alone.agrees(SampleSource({a, b}, sequence).fingerprint(), 0));
}

TEST(SampleSourceTest, at_another_length_sources_start_over_as_in_a_run_of_that_length) {
  const Folder folder;
  write_set(folder / "a", {ids_from(1, 601)});
  write_set(folder / "b", {ids_from(2001, 301)});
  const SourceSpec a{.prefix = folder / "a", .weight = 2}, b{.prefix = folder / "b"};
  const SequenceSpec shorter{.seq_len = 6, .seed = 5}, longer{.seq_len = 20, .seed = 5};
  const SampleSource staged({a, b}, shorter, {{30, {a, b}, 20}, {40, {b}}, {50, {a, b}, 6}});
  const SampleSource before({a, b}, shorter), after({a, b}, longer);
  const auto same = [&](std::uint64_t sample, const SampleSource& other, std::uint64_t there) {
    const std::int64_t seq_len = staged.seq_len(sample);
    Sequence own(seq_len), others(seq_len);
    staged.fill(sample, own.view());
    other.fill(there, others.view());
    return own.ids == others.ids && own.targets == others.targets;
  };
  for (std::uint64_t sample = 0; sample < 40; ++sample) {
    const bool is_long = sample >= 30;
    EXPECT_EQ(staged.seq_len(sample), is_long ? 20 : 6);
    EXPECT_TRUE(is_long ? same(sample, after, sample - 30) : same(sample, before, sample))
        << sample;
  }
  // Later stages that set no length, or an earlier one, continue every source where it stopped.
  std::map<std::pair<std::size_t, std::uint64_t>, std::set<std::uint64_t>> windows;
  std::vector<std::uint64_t> next(staged.sources(), 0);
  for (std::uint64_t sample = 0; sample < 70; ++sample) {
    const Origin origin = staged.origin(sample);
    EXPECT_EQ(origin.index, next[origin.source]++);
    EXPECT_TRUE((windows[{origin.source, origin.epoch}].insert(origin.window).second)) << sample;
    EXPECT_EQ(staged.seq_len_of(origin.source), sample < 30 || sample >= 50 ? 6 : 20);
  }
  EXPECT_EQ(staged.sources(), 4u);
  EXPECT_EQ(staged.consumed(70), next);
  EXPECT_EQ(staged.total_tokens(), before.total_tokens());
  // What was trained on before the change does not depend on it.
  EXPECT_TRUE(staged.agrees(before.fingerprint(), 30));
  EXPECT_FALSE(staged.agrees(before.fingerprint(), 31));
  EXPECT_TRUE(before.agrees(staged.fingerprint(), 70));
}

TEST(SampleSourceTest, a_split_gives_disjoint_documents) {
  const Folder folder;
  std::vector<std::vector<std::int32_t>> documents;
  for (int d = 0; d < 100; ++d) documents.emplace_back(11, d);
  write_set(folder / "set", documents);
  const double bounds[] = {0, 0.9, 1};
  std::set<std::int32_t> seen[2];
  for (int part = 0; part < 2; ++part) {
    const SampleSource source(
        {{.prefix = folder / "set", .first = bounds[part], .last = bounds[part + 1]}},
        {.seq_len = 5, .shuffle = false});
    EXPECT_EQ(source.total_tokens(), part == 0 ? 990u : 110u);
    for (std::uint64_t sample = 0; sample < source.samples_per_epoch(); ++sample) {
      Sequence sequence(5);
      source.fill(sample, sequence.view());
      seen[part].insert(sequence.ids.begin(), sequence.ids.end());
      seen[part].insert(sequence.targets.begin(), sequence.targets.end());
      EXPECT_EQ(source.documents_of(sample)[0].document, sequence.ids[0]);
    }
  }
  EXPECT_EQ(*seen[0].rbegin(), 89);
  EXPECT_EQ(*seen[1].begin(), 90);
  EXPECT_EQ(*seen[1].rbegin(), 99);
}

TEST(SampleSourceTest, ids_beyond_the_vocabulary_are_found_before_the_first_step) {
  const Folder folder;
  write_set(folder / "set", {{1, 2, 3}, {4, 99, 5}, {1, 1}});
  const auto open = [&](std::int64_t vocab_size, double last = 1) {
    return complaint<DataError>([&] {
      SampleSource({{.prefix = folder / "set", .last = last}},
                   {.seq_len = 2, .vocab_size = vocab_size});
    });
  };
  EXPECT_EQ(open(100), "");
  EXPECT_TRUE(has(open(99),
                  "set.bin: document 1, token 1 has the id 99, but the model's "
                  "vocab_size is 99"))
      << open(99);
  EXPECT_EQ(open(99, 0.34), "");  // not among the chosen documents

  // A sidecar of these very files answers without a scan, and is not believed otherwise.
  Sidecar sidecar{.tokenizer = "bytes", .vocab_size = 257, .tokens = 8, .highest_id = 50};
  write_sidecar(folder / "set", sidecar, IndexedDataset(folder / "set"));
  EXPECT_EQ(open(60), "");
  write_set(folder / "set", {{1, 2, 3}, {4, 98, 5}, {1, 1}});
  EXPECT_NE(open(60), "");
}

TEST(SampleSourceTest, too_little_text_for_one_sequence_is_refused) {
  const Folder folder;
  write_set(folder / "set", {{1, 2, 3, 4}});
  const auto open = [&](std::int64_t seq_len) {
    return complaint<DataError>(
        [&] { SampleSource({{.prefix = folder / "set"}}, {.seq_len = seq_len}); });
  };
  EXPECT_EQ(open(3), "");
  EXPECT_TRUE(has(open(4), "4 tokens, and one sequence of training.seq_len = 4 needs 5"));
  IndexedDatasetWriter writer(folder / "none", TokenType::kU16);
  writer.finish();
  EXPECT_TRUE(has(
      complaint<DataError>([&] { SampleSource({{.prefix = folder / "none"}}, {.seq_len = 1}); }),
      "none.bin: its documents [0, 0) of 0 have 0 tokens"));
}

TEST(SampleSourceTest, samples_overlap_by_the_stride) {
  const Folder folder;
  write_set(folder / "set", {ids_from(1, 12)});
  for (const std::int64_t stride : {1, 2, 3, 4, 5, 11, 12}) {
    const SampleSource source({{.prefix = folder / "set"}},
                              {.seq_len = 4, .stride = stride, .shuffle = false});
    // The last sample that has all of its targets.
    const std::int64_t count = (12 - 1 - 4) / stride + 1;
    ASSERT_EQ(source.samples_per_epoch(), static_cast<std::uint64_t>(count)) << stride;
    Sequence sequence(4);
    for (std::int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(source.fill(static_cast<std::uint64_t>(i), sequence.view()), 4);
      const auto first = static_cast<std::int32_t>(1 + i * stride);
      EXPECT_EQ(sequence.ids, ids_from(first, 4));
      EXPECT_EQ(sequence.targets, ids_from(first + 1, 4));
    }
  }
}

TEST(SampleSourceTest, the_fingerprint_tells_data_apart) {
  const Folder folder;
  const auto print = [&] {
    return SampleSource({{.prefix = folder / "set"}}, {.seq_len = 2}).fingerprint();
  };
  write_set(folder / "set", {{1, 2, 3}});
  const std::string first = print();
  EXPECT_TRUE(has(first, "set 1 documents 3 tokens ")) << first;
  EXPECT_EQ(print(), first);
  write_set(folder / "set", {{1, 2, 4}});
  EXPECT_NE(print(), first);
}

TEST(SampleSourceTest, bytes_per_token_come_from_the_sidecars) {
  const Folder folder;
  write_set(folder / "a", {ids_from(0, 10)});
  write_set(folder / "b", {ids_from(0, 30)});
  const auto bytes = [&] {
    return SampleSource({{.prefix = folder / "a"}, {.prefix = folder / "b"}}, {.seq_len = 2})
        .bytes_per_token();
  };
  write_sidecar(folder / "a", {.tokens = 10, .text_bytes = 20}, IndexedDataset(folder / "a"));
  EXPECT_EQ(bytes(), 0);
  write_sidecar(folder / "b", {.tokens = 30, .text_bytes = 180}, IndexedDataset(folder / "b"));
  EXPECT_DOUBLE_EQ(bytes(), 5);
}

}  // namespace
}  // namespace trireme::data
