#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/sample_order.h"
#include "data/source_part.h"

namespace trireme::data {

struct SequenceSpec {
  std::int64_t seq_len = 0;
  bool document_mask = false;
  std::uint64_t seed = 0;
  bool shuffle = true;  // false: windows in file order (validation)
  // Megatron-LM's order for so many samples, instead of ours.
  std::optional<std::uint64_t> megatron_samples = {};
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

// A run of one document's tokens among a sample's seq_len inputs.
struct DocumentSlice {
  std::size_t source;
  std::int64_t document;  // as numbered in the token file
  std::int64_t first;     // first token, counted inside the document
  std::int64_t count;
  std::int64_t at;  // index in the sequence
};

// From a sample on, other sources or other weights of the same.
struct MixtureChange {
  std::uint64_t first_sample = 0;
  std::vector<SourceSpec> sources;
};

// The whole training order as a pure function: global sample number -> sequence, by WindowOrder
// or by MegatronOrder. Sources are told apart by their prefixes, and by how often one stands in a
// list; they are counted as they first appear, and one that appears again goes on where it was.
// Const and safe to call from any thread. Throws DataError for bad token files, naming the file,
// what is wrong and the fix; ids beyond the vocabulary are found here, not in step 0.
class SampleSource {
 public:
  // `changes` in the order of their samples; Megatron-LM's order has none.
  SampleSource(std::vector<SourceSpec> sources, SequenceSpec sequence,
               std::vector<MixtureChange> changes = {});
  SampleSource(SampleSource&&) noexcept;
  SampleSource& operator=(SampleSource&&) noexcept;
  ~SampleSource();

  // Returns the number of valid targets.
  std::int64_t fill(std::uint64_t sample, SequenceView into) const;

  Origin origin(std::uint64_t sample) const;
  std::vector<DocumentSlice> documents_of(std::uint64_t sample) const;

  // How many of the samples [0, sample) came from each source: the ledger's positions.
  std::vector<std::uint64_t> consumed(std::uint64_t sample) const;

  std::uint64_t samples_per_epoch() const;  // of all sources together
  // Windows that one Origin::epoch of a source visits.
  std::uint64_t windows(std::size_t source) const;
  std::uint64_t total_tokens() const;  // in the chosen documents of all sources

  // Bytes of the original text per token, end-of-document tokens included, to turn a loss
  // into bits per byte; 0 where a source has no sidecar that says so.
  double bytes_per_token() const;

  // Names, sizes and hashes of the sources: differs when the data do. For checkpoints.
  std::string fingerprint() const;
  // Whether a fingerprint has the same for those sources that samples [0, sample) come from.
  bool agrees(const std::string& fingerprint, std::uint64_t sample) const;

  std::size_t sources() const;
  const SourceSpec& source(std::size_t index) const;
  const TokenStream& stream(std::size_t index) const;
  const SequenceSpec& sequence() const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

// "0.99,0.01" -> fractions of the documents, front to back (train, validation[, test]),
// scaled to add up to one. Returns the bounds: {0, 0.99, 1}. Throws ConfigError.
std::vector<double> split_bounds(const std::string& split);

}  // namespace trireme::data
