#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme::data {

// Origin of a sample. `index` is the sample's number within its source.
struct Origin {
  std::size_t source;
  std::uint64_t index;
  std::uint64_t epoch;
  std::uint64_t window;  // among those of one epoch, each visited once
};

// A contiguous range of tokens of a source's stream.
struct TokenRun {
  std::int64_t first = 0, count = 0;
};

// A training order: pure functions, thread-safe.
class SampleOrder {
 public:
  virtual ~SampleOrder() = default;
  virtual Origin origin(std::uint64_t sample) const = 0;
  // The seq_len + 1 tokens of a sample; a document ends at the end of each range but the last.
  virtual std::vector<TokenRun> runs(const Origin& from) const = 0;
  // Number of samples of each source among the samples [0, sample).
  virtual std::vector<std::uint64_t> consumed(std::uint64_t sample) const = 0;
  // Windows in one epoch of a source.
  virtual std::uint64_t windows(std::size_t source) const = 0;
};

}  // namespace trireme::data
