#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trireme::data {

// Where a sample comes from. `index` counts the samples of this source alone.
struct Origin {
  std::size_t source;
  std::uint64_t index;
  std::uint64_t epoch;
  std::uint64_t window;  // of those that one epoch visits, each once
};

// Tokens that lie together in a source's stream.
struct TokenRun {
  std::int64_t first = 0, count = 0;
};

// What the samples of a training order are: pure functions, safe to call from any thread.
class SampleOrder {
 public:
  virtual ~SampleOrder() = default;
  virtual Origin origin(std::uint64_t sample) const = 0;
  // The seq_len + 1 tokens of a sample; where one run ends and another begins, so does a document.
  virtual std::vector<TokenRun> runs(const Origin& from) const = 0;
  // How many of the samples [0, sample) came from each source.
  virtual std::vector<std::uint64_t> consumed(std::uint64_t sample) const = 0;
  // Windows that one epoch of a source visits.
  virtual std::uint64_t windows(std::size_t source) const = 0;
};

}  // namespace trireme::data
