#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "model/tensor/host_tensor.h"
#include "trainer/tools/verify/verification.h"

namespace trireme::verify {
namespace {

constexpr std::size_t kMostNumbers = 8;

std::string sample_list(const std::vector<std::int64_t>& numbers) {
  const auto shown = static_cast<std::ptrdiff_t>(std::min(numbers.size(), kMostNumbers));
  const std::vector<std::int64_t> first(numbers.begin(), numbers.begin() + shown);
  return fmt::format("{}{}", fmt::join(first, ", "), numbers.size() > kMostNumbers ? ", ..." : "");
}

}  // namespace

std::optional<Difference> Verification::compare_samples(std::int64_t step) {
  const Filled expected = samples_.whole_step(step);
  double differs[] = {0};
  const bool is_wrong =
      subject_.takes_part() && (filled_.valid != expected.valid || filled_.hash != expected.hash);
  if (is_wrong) differs[0] = 1;
  Stream stream;
  ranks_->all_reduce(stream, host_tensor(std::span(differs)), Reduce::kMax);
  if (differs[0] == 0) return std::nullopt;
  Difference difference;
  difference.step = step;
  difference.what = "number of samples read exactly once";
  difference.cause = cause_of_samples(step, is_wrong, difference);
  return difference;
}

// Gathers the samples that each data rank read, from one rank per data rank: of its context ranks,
// which read the same, one of the first that read others than those of the step.
Cause Verification::cause_of_samples(std::int64_t step, bool differs,
                                     Difference& difference) const {
  const std::int64_t size = of_.subject.training.global_batch_size;
  const auto each = static_cast<std::size_t>(size / data_ranks(of_.subject.parallelism));
  Stream stream;
  constexpr double kNone = -1e9;
  double wrong_context[] = {kNone};
  if (subject_.takes_part() && differs) wrong_context[0] = -subject_.groups().context->rank();
  ranks_->all_reduce(stream, host_tensor(std::span(wrong_context)), Reduce::kMax);
  const int context = -static_cast<int>(wrong_context[0]);
  std::vector<double> own(each + 1, -1);  // the data rank, then its samples
  if (subject_.takes_part() && subject_.groups().tensor->rank() == 0 &&
      subject_.groups().context->rank() == context && subject_.groups().pp_forward->rank() == 0) {
    own[0] = subject_.groups().data->rank();
    const auto found = samples_.samples_in(subject_.engine().batch(), step);
    std::copy_n(found.begin(), std::min(found.size(), each), own.begin() + 1);
  }
  std::vector<double> all(own.size() * ranks_->size());
  ranks_->all_gather(stream, host_tensor(std::span(all)), host_tensor(std::span(own)));
  const auto first = static_cast<std::int64_t>(samples_.first_of(step));
  std::map<std::int64_t, int> times;
  std::map<int, std::vector<std::int64_t>> read;
  for (auto from = all.begin(); from != all.end(); from += static_cast<std::ptrdiff_t>(each) + 1) {
    if (*from < 0) continue;
    for (std::size_t i = 1; i <= each; ++i) {
      const auto sample = static_cast<std::int64_t>(from[static_cast<std::ptrdiff_t>(i)]);
      ++times[sample];
      read[static_cast<int>(*from)].push_back(sample);
    }
  }
  std::vector<std::int64_t> missing, doubled;
  for (std::int64_t sample = first; sample < first + size; ++sample) {
    if (times[sample] == 0) missing.push_back(sample);
    if (times[sample] > 1) doubled.push_back(sample);
  }
  std::string text = fmt::format("of samples {} to {} of the step", first, first + size - 1);
  if (of_.subject.parallelism.context > 1) text += fmt::format(", on context rank {}", context);
  if (!missing.empty()) text += fmt::format(", no data rank reads {}", sample_list(missing));
  if (!doubled.empty()) text += fmt::format(", several data ranks read {}", sample_list(doubled));
  for (const auto& [rank, samples] : read) {
    std::vector<std::int64_t> strange;
    for (const std::int64_t sample : samples) {
      if (sample < first || sample >= first + size) strange.push_back(sample);
    }
    if (strange.empty()) continue;
    text += fmt::format("; data rank {} reads {}, which {} not part of the step", rank,
                        sample_list(strange), strange.size() == 1 ? "is" : "are");
  }
  const auto wrong = missing.size() + doubled.size();
  difference.pair = {static_cast<double>(size) - static_cast<double>(wrong),
                     static_cast<double>(size)};
  difference.share = difference.pair.relative();
  return {"samples", text};
}

}  // namespace trireme::verify
