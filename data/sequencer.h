#pragma once
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace trireme::data {

// One token file of a blend and the part of its documents to use.
struct SourceSpec {
  std::filesystem::path prefix;  // PREFIX of PREFIX.bin and PREFIX.idx
  double weight = 1;             // share of the samples, relative to the other sources
  double first = 0, last = 1;    // range of the documents, as fractions of their number
};

struct SequenceSpec {
  std::int64_t seq_len = 0;
  bool document_mask = false;
  std::uint64_t seed = 0;
  bool shuffle = true;          // false: windows in file order (validation)
  std::int64_t vocab_size = 0;  // the model's; every token id must be below it (0: unchecked)
};

// Where one sequence goes: four spans of seq_len each.
struct SequenceView {
  std::span<std::int32_t> ids;
  std::span<std::int32_t> targets;         // -1: no target (the end of a document, when masked)
  std::span<std::int32_t> positions;       // restart at every document when masked
  std::span<std::int32_t> document_start;  // index in the sequence where this token's document
                                           // begins; all 0 when not masked
};

// Where a sample comes from. `index` counts the samples of this source alone.
struct Origin {
  std::size_t source;
  std::uint64_t index;
  std::uint64_t epoch;
  std::uint64_t window;
};

// A run of one document's tokens among a sample's seq_len inputs.
struct DocumentSlice {
  std::size_t source;
  std::int64_t document;  // as numbered in the token file
  std::int64_t first;     // first token, counted inside the document
  std::int64_t count;
  std::int64_t at;  // index in the sequence
};

// The whole training order as a pure function: global sample number -> sequence.
// Documents are laid end to end; window w of a source holds its tokens
// [w * seq_len, w * seq_len + seq_len], so that neighbours share one token and every
// token is predicted once per epoch (the last, incomplete window is left out).
// Sources alternate by Blend; every epoch of a source visits its windows in
// a new order by Shuffle. Nothing is built at the start and nothing is remembered:
// const and safe to call from any thread. Throws DataError for bad token files, naming
// the file, what is wrong and the fix; ids beyond the vocabulary are found here, not
// in step 0.
class SampleSource {
 public:
  SampleSource(std::vector<SourceSpec> sources, SequenceSpec sequence);
  SampleSource(SampleSource&&) noexcept;
  SampleSource& operator=(SampleSource&&) noexcept;
  ~SampleSource();

  // Returns the number of valid targets.
  std::int64_t fill(std::uint64_t sample, SequenceView into) const;

  Origin origin(std::uint64_t sample) const;
  std::vector<DocumentSlice> documents_of(std::uint64_t sample) const;

  // How many of the samples [0, sample) came from each source: the ledger's positions.
  std::vector<std::uint64_t> consumed(std::uint64_t sample) const;

  std::uint64_t samples_per_epoch() const;  // windows of all sources together
  std::uint64_t samples_per_epoch(std::size_t source) const;
  std::uint64_t total_tokens() const;  // in the chosen documents of all sources

  // Bytes of the original text per token, end-of-document tokens included, to turn a loss
  // into bits per byte; 0 where a source has no sidecar that says so.
  double bytes_per_token() const;

  // Names, sizes and hashes of the sources: differs when the data do. For checkpoints.
  std::string fingerprint() const;

  std::size_t sources() const;
  const SourceSpec& source(std::size_t index) const;
  const SequenceSpec& sequence() const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

// "0.99,0.01" -> fractions of the documents, front to back (train, validation[, test]),
// scaled to add up to one. Returns the bounds: {0, 0.99, 1}. Throws ConfigError.
std::vector<double> split_bounds(const std::string& split);

}  // namespace trireme::data
