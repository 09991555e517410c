#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/sample_order.h"
#include "data/source_part.h"
#include "data/token_batch.h"

namespace trireme::data {

struct SequenceSpec {
  std::int64_t seq_len = 0;  // of the first samples
  std::int64_t stride = 0;   // tokens from one sample to the next in a source; 0: seq_len
  bool document_mask = false;
  std::uint64_t seed = 0;
  bool shuffle = true;  // false: windows in file order (validation)
  // Use Megatron-LM's order, built for this many samples.
  std::optional<std::uint64_t> megatron_samples = {};
  std::int64_t vocab_size = 0;  // of the model; every token id must be below it (0: unchecked)
};

// A contiguous range of one document among the seq_len inputs of a sample.
struct DocumentSlice {
  std::size_t source;
  std::int64_t document;  // as numbered in the token file
  std::int64_t first;     // offset of the first token in the document
  std::int64_t count;
  std::int64_t at;  // index in the sequence
};

// From this sample on, other sources, weights or tokens of a sequence.
struct MixtureChange {
  std::uint64_t first_sample = 0;
  std::vector<SourceSpec> sources;
  std::int64_t seq_len = 0;  // 0: as before
};

// The training order: maps global sample numbers to sequences, by WindowOrder or MegatronOrder.
// Sources are identified by prefix, within one list by repetition, and by the tokens of their
// sequences; they are numbered in order of first appearance, and a source that reappears continues
// where it stopped. At a new length a source thus starts over, in the order of a run that has this
// length from the start. Const and thread-safe. Throws DataError for invalid token files, with
// file, problem and fix; ids outside the vocabulary are detected here, before the first step.
class SampleSource {
 public:
  // `changes` are in the order of their samples; Megatron-LM's order supports none.
  SampleSource(std::vector<SourceSpec> sources, SequenceSpec sequence,
               std::vector<MixtureChange> changes = {});
  SampleSource(SampleSource&&) noexcept;
  SampleSource& operator=(SampleSource&&) noexcept;
  ~SampleSource();

  // Fills one sequence, of seq_len(sample) tokens. Returns the number of valid targets.
  std::int64_t fill(std::uint64_t sample, const TokenBatch& into) const;

  Origin origin(std::uint64_t sample) const;
  std::int64_t seq_len(std::uint64_t sample) const;
  std::vector<DocumentSlice> documents_of(std::uint64_t sample) const;

  // Number of samples of each source among the samples [0, sample): the positions of the data
  // ledger.
  std::vector<std::uint64_t> consumed(std::uint64_t sample) const;

  std::uint64_t samples_per_epoch() const;  // over all sources, at each length
  // Windows in one epoch (Origin::epoch) of a source.
  std::uint64_t windows(std::size_t source) const;
  std::uint64_t total_tokens() const;  // in the selected documents, once at whatever lengths

  // Bytes of the original text per token, end-of-document tokens included, to convert a loss to
  // bits per byte; 0 if a source has no sidecar with this information.
  double bytes_per_token() const;

  // Names, sizes and hashes of the sources; changes with the data. Stored in checkpoints.
  std::string fingerprint() const;
  // Whether a fingerprint matches in the sources of samples [0, sample).
  bool agrees(const std::string& fingerprint, std::uint64_t sample) const;

  std::size_t sources() const;
  const SourceSpec& source(std::size_t index) const;
  std::int64_t seq_len_of(std::size_t source) const;
  const TokenStream& stream(std::size_t index) const;
  const SequenceSpec& sequence() const;

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

}  // namespace trireme::data
