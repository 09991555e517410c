#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace trireme::data {

// Samples [first, end) of the training order.
struct SampleRange {
  std::uint64_t first = 0, end = 0;
  bool operator==(const SampleRange&) const = default;
};
inline std::array<std::uint64_t, 2> json_form(SampleRange range) {
  return {range.first, range.end};
}
inline const char* set_json_form(SampleRange& range, std::array<std::uint64_t, 2> form) {
  range = {form[0], form[1]};
  return range.first < range.end ? nullptr : "[FIRST, END) with FIRST below END is";
}

// The samples that training skips. The position of a run in its data is the number of samples it
// has trained on, as if skipped samples were not in the order.
class LeftOut {
 public:
  LeftOut() = default;
  explicit LeftOut(const std::vector<SampleRange>& ranges);

  void add(SampleRange range);
  // The next sample after `trained` trained samples.
  std::uint64_t sample(std::uint64_t trained) const;
  // The skipped samples in [0, sample).
  LeftOut before(std::uint64_t sample) const;
  // The skipped samples in `range`.
  LeftOut inside(SampleRange range) const;
  std::uint64_t count() const;
  // Ascending and not adjacent.
  const std::vector<SampleRange>& ranges() const { return ranges_; }

  bool operator==(const LeftOut&) const = default;

 private:
  std::vector<SampleRange> ranges_;
};

}  // namespace trireme::data
