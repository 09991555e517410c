#include "data/sequencer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "data/blend.h"
#include "data/hex.h"
#include "data/indexed_dataset.h"
#include "data/shuffle.h"
#include "data/sidecar.h"
#include "model/base/error.h"
#include "model/base/philox.h"

namespace trireme::data {
namespace {

// The chosen documents of one dataset as a row of windows.
class Windows {
 public:
  Windows(SourceSpec spec, const SequenceSpec& sequence)
      : spec_(std::move(spec)), dataset_(spec_.prefix), seq_len_(sequence.seq_len) {
    choose_documents();
    sidecar_ = read_sidecar(spec_.prefix, dataset_);
    if (sequence.vocab_size > 0) check_vocabulary(sequence.vocab_size);
  }

  std::uint64_t count() const { return static_cast<std::uint64_t>((tokens_ - 1) / seq_len_); }
  std::int64_t begin(std::uint64_t window) const {
    return begin_ + static_cast<std::int64_t>(window) * seq_len_;
  }
  std::int64_t tokens() const { return tokens_; }
  const SourceSpec& spec() const { return spec_; }
  const IndexedDataset& dataset() const { return dataset_; }
  const std::optional<Sidecar>& sidecar() const { return sidecar_; }

 private:
  void choose_documents() {
    const auto documents = static_cast<double>(dataset_.documents());
    if (!(spec_.first >= 0 && spec_.first < spec_.last && spec_.last <= 1)) {
      throw ConfigError(say("data: ", dataset_.name(), ": the documents from ", spec_.first, " to ",
                            spec_.last, " are no part of 0 to 1"));
    }
    const auto first = static_cast<std::int64_t>(std::nearbyint(spec_.first * documents));
    const auto last = static_cast<std::int64_t>(std::nearbyint(spec_.last * documents));
    begin_ = dataset_.document_begin(first);
    tokens_ = dataset_.document_begin(last) - begin_;
    if (tokens_ > seq_len_) return;
    throw DataError(say(dataset_.name(), ".bin: its documents [", first, ", ", last, ") of ",
                        dataset_.documents(), " have ", tokens_,
                        " tokens, and one sequence of training.seq_len = ", seq_len_, " needs ",
                        seq_len_ + 1, ": add text, lower seq_len or widen data.split"));
  }

  void check_vocabulary(std::int64_t vocab_size) const {
    if (sidecar_ && sidecar_->highest_id < vocab_size) return;
    dataset_.check_ids(vocab_size, begin_, begin_ + tokens_);
  }

  SourceSpec spec_;
  IndexedDataset dataset_;
  std::int64_t seq_len_;
  std::optional<Sidecar> sidecar_;
  std::int64_t begin_ = 0;  // first token, in the dataset's stream
  std::int64_t tokens_ = 0;
};

std::vector<double> weights_of(const std::vector<SourceSpec>& sources) {
  std::vector<double> weights;
  for (const SourceSpec& source : sources) weights.push_back(source.weight);
  return weights;
}

}  // namespace

struct SampleSource::State {
  SequenceSpec sequence;
  Blend blend;
  std::vector<Windows> windows;  // [sources]
  std::uint64_t shuffle_key;
};

SampleSource::SampleSource(std::vector<SourceSpec> sources, SequenceSpec sequence) {
  if (sequence.seq_len <= 0) {
    throw ConfigError(say("training.seq_len is ", sequence.seq_len, "; it must be at least 1"));
  }
  auto state =
      std::make_unique<State>(State{.sequence = sequence,
                                    .blend = Blend(weights_of(sources)),
                                    .windows = {},
                                    .shuffle_key = random_key(sequence.seed, "data/shuffle")});
  for (SourceSpec& source : sources) state->windows.emplace_back(std::move(source), sequence);
  state_ = std::move(state);
}
SampleSource::SampleSource(SampleSource&&) noexcept = default;
SampleSource& SampleSource::operator=(SampleSource&&) noexcept = default;
SampleSource::~SampleSource() = default;

Origin SampleSource::origin(std::uint64_t sample) const {
  const Blend::Pick pick = state_->blend(sample);
  const std::uint64_t count = state_->windows[pick.source].count();
  Origin origin{.source = pick.source,
                .index = pick.index,
                .epoch = pick.index / count,
                .window = pick.index % count};
  if (state_->sequence.shuffle) {
    const auto random = philox(state_->shuffle_key, origin.epoch, origin.source);
    const Shuffle shuffle(count, random[0] | std::uint64_t{random[1]} << 32);
    origin.window = shuffle(origin.window);
  }
  return origin;
}

std::vector<DocumentSlice> SampleSource::documents_of(std::uint64_t sample) const {
  const Origin from = origin(sample);
  const IndexedDataset& dataset = state_->windows[from.source].dataset();
  const std::int64_t begin = state_->windows[from.source].begin(from.window);
  const std::int64_t end = begin + state_->sequence.seq_len;
  std::vector<DocumentSlice> slices;
  std::int64_t document = dataset.document_at(begin);
  for (std::int64_t at = begin; at < end; ++document) {
    const std::int64_t stop = std::min(end, dataset.document_begin(document + 1));
    if (stop == at) continue;  // an empty document
    slices.push_back({.source = from.source,
                      .document = document,
                      .first = at - dataset.document_begin(document),
                      .count = stop - at,
                      .at = at - begin});
    at = stop;
  }
  return slices;
}

std::int64_t SampleSource::fill(std::uint64_t sample, SequenceView into) const {
  const std::int64_t seq_len = state_->sequence.seq_len;
  for (const auto& span : {into.ids, into.targets, into.positions, into.document_start}) {
    require(static_cast<std::int64_t>(span.size()) == seq_len, "a span of ", span.size(), " for ",
            seq_len, " tokens");
  }
  const Origin from = origin(sample);
  const Windows& windows = state_->windows[from.source];
  const std::int64_t begin = windows.begin(from.window);
  windows.dataset().read(begin, into.ids);
  windows.dataset().read(begin + 1, into.targets);
  std::iota(into.positions.begin(), into.positions.end(), 0);
  std::fill(into.document_start.begin(), into.document_start.end(), 0);
  if (!state_->sequence.document_mask) return seq_len;

  const IndexedDataset& dataset = windows.dataset();
  std::int64_t valid = seq_len;
  std::int64_t document = dataset.document_at(begin);
  for (std::int64_t at = 0; at < seq_len; ++document) {
    const std::int64_t end = dataset.document_begin(document + 1) - begin;
    if (end == at) continue;  // an empty document
    const std::int64_t stop = std::min(end, seq_len);
    const auto start = static_cast<std::int32_t>(at);
    std::iota(into.positions.begin() + at, into.positions.begin() + stop, 0);
    std::fill(into.document_start.begin() + at, into.document_start.begin() + stop, start);
    if (end <= seq_len) {  // its last token is here and would predict another document
      into.targets[end - 1] = -1;
      --valid;
    }
    at = stop;
  }
  return valid;
}

std::vector<std::uint64_t> SampleSource::consumed(std::uint64_t sample) const {
  return state_->blend.counts(sample);
}

std::uint64_t SampleSource::samples_per_epoch() const {
  std::uint64_t sum = 0;
  for (const Windows& windows : state_->windows) sum += windows.count();
  return sum;
}
std::uint64_t SampleSource::samples_per_epoch(std::size_t source) const {
  return state_->windows.at(source).count();
}

std::uint64_t SampleSource::total_tokens() const {
  std::uint64_t sum = 0;
  for (const Windows& windows : state_->windows) {
    sum += static_cast<std::uint64_t>(windows.tokens());
  }
  return sum;
}

double SampleSource::bytes_per_token() const {
  double bytes = 0;
  for (const Windows& windows : state_->windows) {
    if (!windows.sidecar() || windows.sidecar()->tokens == 0) return 0;
    bytes += static_cast<double>(windows.tokens()) *
             static_cast<double>(windows.sidecar()->text_bytes) /
             static_cast<double>(windows.sidecar()->tokens);
  }
  return bytes / static_cast<double>(total_tokens());
}

std::string SampleSource::fingerprint() const {
  std::string text;
  for (const Windows& windows : state_->windows) {
    const IndexedDataset& dataset = windows.dataset();
    text += say(text.empty() ? "" : "; ", windows.spec().prefix.filename().string(), " ",
                dataset.documents(), " documents ", dataset.tokens(), " tokens ",
                hex(dataset.sampled_hash()));
  }
  return text;
}

std::size_t SampleSource::sources() const {
  return state_->windows.size();
}
const SourceSpec& SampleSource::source(std::size_t index) const {
  return state_->windows.at(index).spec();
}
const SequenceSpec& SampleSource::sequence() const {
  return state_->sequence;
}

std::vector<double> split_bounds(const std::string& split) {
  const auto refuse = [&] {
    throw ConfigError(say("data.split = \"", split,
                          "\": give fractions of the documents, train first, like \"0.99,0.01\""));
  };
  std::vector<double> bounds{0};
  std::istringstream parts(split);
  for (std::string part; std::getline(parts, part, ',');) {
    std::istringstream number(part);
    double fraction = 0;
    if (!(number >> fraction) || !(number >> std::ws).eof()) refuse();
    if (!std::isfinite(fraction) || fraction < 0) refuse();
    bounds.push_back(bounds.back() + fraction);
  }
  const double sum = bounds.back();
  if (bounds.size() < 2 || !std::isfinite(sum) || bounds[1] <= 0) refuse();
  for (double& bound : bounds) bound /= sum;
  return bounds;
}

}  // namespace trireme::data
