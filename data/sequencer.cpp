#include "data/sequencer.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "data/source_part.h"
#include "data/window_order.h"
#include "model/base/error.h"
#include "model/base/hex.h"

namespace trireme::data {
namespace {

// Sources of samples, and the tokens of these.
struct SourceList {
  std::vector<SourceSpec> sources;
  std::int64_t seq_len = 0;
};

struct Source {
  SourceSpec spec;
  std::int64_t seq_len = 0;
  std::size_t data = 0;  // its number among those of any length, of first appearance
};

// The distinct sources of several lists in order of first appearance, and the indices of each
// list's sources among them. A prefix repeated in one list counts as several sources.
struct Gathered {
  std::vector<Source> sources;
  std::vector<std::vector<std::size_t>> places;  // [lists]
};

Gathered gather(std::vector<SourceList> lists) {
  Gathered all;
  using Data = std::pair<std::filesystem::path, int>;  // by prefix and repetition
  std::map<Data, std::size_t> data;
  std::map<std::pair<Data, std::int64_t>, std::size_t> known;
  for (SourceList& list : lists) {
    std::map<std::filesystem::path, int> repetitions;
    auto& places = all.places.emplace_back();
    for (SourceSpec& source : list.sources) {
      const Data key{source.prefix, repetitions[source.prefix]++};
      const std::size_t number = data.try_emplace(key, data.size()).first->second;
      const auto [found, is_new] = known.try_emplace({key, list.seq_len}, all.sources.size());
      places.push_back(found->second);
      if (is_new) all.sources.push_back({std::move(source), list.seq_len, number});
    }
  }
  return all;
}

constexpr const char* kBetween = "; ";  // separates sources in a fingerprint

std::vector<double> weights_of(const std::vector<SourceSpec>& sources) {
  std::vector<double> weights;
  for (const SourceSpec& source : sources) weights.push_back(source.weight);
  return weights;
}

std::string description(const SourcePart& part) {
  const TokenStream& stream = part.stream();
  return say(part.spec().prefix.filename().string(), " ", stream.documents(), " documents ",
             stream.tokens(), " tokens ", hex(stream.sampled_hash()));
}

void require_document_bounds(const TokenStream& stream) {
  if (stream.index_bytes() > 0) return;
  throw DataError(say(stream.name(), ": files of ", stream.format(),
                      " have no document boundaries, which data.document_mask needs: set it to "
                      "false, or tokenize the text with `trireme tokenize`"));
}

// Reads tokens from offset `at` of a sample on: each is an input, and the target of the previous
// one.
void read_run(const TokenStream& stream, const TokenRun& run, std::int64_t at,
              const TokenBatch& into) {
  const auto seq_len = static_cast<std::int64_t>(into.ids.size());
  const auto part = [](std::span<std::int32_t> all, std::int64_t first, std::int64_t count) {
    return all.subspan(first, count);
  };
  stream.read(run.first, part(into.ids, at, std::min(run.count, seq_len - at)));
  const std::int64_t skipped = at == 0 ? 1 : 0;  // the first token is not a target
  stream.read(run.first + skipped, part(into.targets, at - 1 + skipped, run.count - skipped));
}

// Calls `use` for each document of a range at offset `at` of a sample, with the document's number,
// its first token in the stream, the number of tokens, and their offset in the sample.
template <class Use>
void for_each_document(const TokenStream& stream, const TokenRun& run, std::int64_t at,
                       const Use& use) {
  std::int64_t document = stream.document_at(run.first);
  const std::int64_t end = run.first + run.count;
  for (std::int64_t token = run.first; token < end; ++document) {
    const std::int64_t stop = std::min(end, stream.document_begin(document + 1));
    if (stop == token) continue;  // an empty document
    use(document, token, stop - token, at + (token - run.first));
    token = stop;
  }
}

}  // namespace

struct SampleSource::State {
  SequenceSpec sequence;
  std::vector<SourcePart> parts;  // [sources]
  std::vector<WindowRow> rows;    // [sources]
  std::vector<std::size_t> once;  // the sources of distinct data
  std::unique_ptr<SampleOrder> order;
};

SampleSource::SampleSource(std::vector<SourceSpec> sources, SequenceSpec sequence,
                           std::vector<MixtureChange> changes) {
  if (sequence.seq_len <= 0) {
    throw ConfigError(say("training.seq_len is ", sequence.seq_len, "; it must be at least 1"));
  }
  std::vector<Mixture::Stage> stages{{0, {}, weights_of(sources)}};
  std::vector<SourceList> lists{{std::move(sources), sequence.seq_len}};
  for (MixtureChange& change : changes) {
    stages.push_back({change.first_sample, {}, weights_of(change.sources)});
    const std::int64_t seq_len = change.seq_len > 0 ? change.seq_len : lists.back().seq_len;
    lists.push_back({std::move(change.sources), seq_len});
  }
  Gathered all = gather(std::move(lists));
  for (std::size_t i = 0; i < stages.size(); ++i) stages[i].sources = all.places[i];
  Mixture mixture(all.sources.size(), stages);

  auto state = std::make_unique<State>();
  state->sequence = sequence;
  const bool is_megatron = sequence.megatron_samples.has_value();
  for (Source& source : all.sources) {
    const SourcePart& part = state->parts.emplace_back(
        std::move(source.spec), SourcePart::Needs{.seq_len = source.seq_len,
                                                  .vocab_size = sequence.vocab_size,
                                                  .by_sequence = is_megatron});
    if (source.data == state->once.size()) state->once.push_back(state->rows.size());
    state->rows.push_back(window_row(part, source.seq_len, sequence.stride, source.data));
  }
  for (const SourcePart& part : state->parts) {
    if (sequence.document_mask) require_document_bounds(part.stream());
  }
  if (is_megatron) {
    require(stages.size() == 1, "stages in Megatron-LM's order");
    state->order = megatron_order_of(state->parts, sequence);
  } else {
    state->order = std::make_unique<WindowOrder>(
        state->rows, std::move(mixture),
        WindowOrder::Options{.seed = sequence.seed, .shuffle = sequence.shuffle});
  }
  state_ = std::move(state);
}
SampleSource::SampleSource(SampleSource&&) noexcept = default;
SampleSource& SampleSource::operator=(SampleSource&&) noexcept = default;
SampleSource::~SampleSource() = default;

Origin SampleSource::origin(std::uint64_t sample) const {
  return state_->order->origin(sample);
}

std::vector<DocumentSlice> SampleSource::documents_of(std::uint64_t sample) const {
  const Origin from = origin(sample);
  const TokenStream& stream = this->stream(from.source);
  const std::int64_t seq_len = seq_len_of(from.source);
  std::vector<DocumentSlice> slices;
  std::int64_t run_at = 0;
  for (const TokenRun& run : state_->order->runs(from)) {
    for_each_document(stream, run, run_at, [&](auto document, auto token, auto count, auto at) {
      if (at == seq_len) return;  // target only
      slices.push_back({.source = from.source,
                        .document = document,
                        .first = token - stream.document_begin(document),
                        .count = std::min(count, seq_len - at),
                        .at = at});
    });
    run_at += run.count;
  }
  return slices;
}

std::int64_t SampleSource::fill(std::uint64_t sample, const TokenBatch& into) const {
  const Origin from = origin(sample);
  const std::int64_t seq_len = seq_len_of(from.source);
  for (const auto& span : {into.ids, into.targets, into.positions, into.document_start}) {
    require(static_cast<std::int64_t>(span.size()) == seq_len, "a span of ", span.size(), " for ",
            seq_len, " tokens");
  }
  const TokenStream& stream = this->stream(from.source);
  const std::vector<TokenRun> runs = state_->order->runs(from);
  std::int64_t at = 0;
  for (const TokenRun& run : runs) {
    read_run(stream, run, at, into);
    at += run.count;
  }
  require(at == seq_len + 1, "sample ", sample, " has ", at, " tokens");
  std::iota(into.positions.begin(), into.positions.end(), 0);
  std::fill(into.document_start.begin(), into.document_start.end(), 0);
  if (!state_->sequence.document_mask) return seq_len;

  std::int64_t valid = seq_len;
  at = 0;
  for (const TokenRun& run : runs) {
    for_each_document(stream, run, at, [&](auto, auto, std::int64_t count, std::int64_t start) {
      const std::int64_t stop = std::min(start + count, seq_len);
      if (start == stop) return;
      std::iota(into.positions.begin() + start, into.positions.begin() + stop, 0);
      std::fill(into.document_start.begin() + start, into.document_start.begin() + stop,
                static_cast<std::int32_t>(start));
      if (start + count <=
          seq_len) {  // its last token is in the range and would predict the next document
        into.targets[stop - 1] = -1;
        --valid;
      }
    });
    at += run.count;
  }
  return valid;
}

std::vector<std::uint64_t> SampleSource::consumed(std::uint64_t sample) const {
  return state_->order->consumed(sample);
}

std::uint64_t SampleSource::samples_per_epoch() const {
  std::uint64_t sum = 0;
  for (const WindowRow& row : state_->rows) sum += row.count;
  return sum;
}
std::uint64_t SampleSource::windows(std::size_t source) const {
  return state_->order->windows(source);
}

std::uint64_t SampleSource::total_tokens() const {
  std::uint64_t sum = 0;
  for (const std::size_t source : state_->once) {
    sum += static_cast<std::uint64_t>(state_->parts[source].tokens());
  }
  return sum;
}

double SampleSource::bytes_per_token() const {
  double bytes = 0;
  for (const std::size_t source : state_->once) {
    const SourcePart& part = state_->parts[source];
    if (!part.sidecar() || part.sidecar()->tokens == 0) return 0;
    bytes += static_cast<double>(part.tokens()) * static_cast<double>(part.sidecar()->text_bytes) /
             static_cast<double>(part.sidecar()->tokens);
  }
  return bytes / static_cast<double>(total_tokens());
}

std::string SampleSource::fingerprint() const {
  std::string text;
  for (const SourcePart& part : state_->parts) {
    text += say(text.empty() ? "" : kBetween, description(part));
  }
  return text;
}

bool SampleSource::agrees(const std::string& fingerprint, std::uint64_t sample) const {
  std::size_t begin = 0;
  const std::vector<std::uint64_t> taken = consumed(sample);
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const bool is_there = begin <= fingerprint.size();
    const std::size_t end = is_there ? fingerprint.find(kBetween, begin) : fingerprint.size();
    const bool same =
        is_there && fingerprint.substr(begin, end - begin) == description(state_->parts[i]);
    if (taken[i] > 0 && !same) return false;
    begin = end == std::string::npos ? fingerprint.size() + 1 : end + 2;
  }
  return true;
}

std::size_t SampleSource::sources() const {
  return state_->parts.size();
}
const SourceSpec& SampleSource::source(std::size_t index) const {
  return state_->parts.at(index).spec();
}
std::int64_t SampleSource::seq_len_of(std::size_t source) const {
  return state_->rows.at(source).seq_len;
}
std::int64_t SampleSource::seq_len(std::uint64_t sample) const {
  return seq_len_of(origin(sample).source);
}
const TokenStream& SampleSource::stream(std::size_t index) const {
  return state_->parts.at(index).stream();
}
const SequenceSpec& SampleSource::sequence() const {
  return state_->sequence;
}

}  // namespace trireme::data
