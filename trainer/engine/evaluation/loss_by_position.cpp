#include "trainer/engine/evaluation/loss_by_position.h"

#include <algorithm>

#include "model/base/error.h"

namespace trireme {
namespace {

// The loss falls fastest over the first tokens, and the mean of fewer is noisy.
constexpr std::int64_t kFirstEnd = 32;

}  // namespace

LossByPosition::LossByPosition(std::int64_t seq_len, std::int64_t bins) : bin_of_(seq_len) {
  require(seq_len > 0 && bins >= 0 && bins <= seq_len, bins, " bins of ", seq_len, " positions");
  for (std::int64_t begin = 0; begin < seq_len;) {
    const auto made = static_cast<std::int64_t>(bins_.size());
    const std::int64_t power = begin == 0 ? kFirstEnd : 2 * begin;
    const std::int64_t end = bins > 0 ? seq_len * (made + 1) / bins : std::min(power, seq_len);
    std::fill(bin_of_.begin() + begin, bin_of_.begin() + end, bins_.size());
    bins_.push_back({.begin = begin, .end = end});
    begin = end;
  }
}

void LossByPosition::add(const data::TokenBatch& batch, std::span<const double> losses) {
  require(losses.size() == batch.targets.size(), losses.size(), " losses of ", batch.targets.size(),
          " tokens");
  for (std::size_t token = 0; token < losses.size(); ++token) {
    if (batch.targets[token] < 0) continue;
    Bin& bin = bins_[bin_of_[batch.positions[token]]];
    ++bin.tokens;
    bin.loss += losses[token];
  }
}

}  // namespace trireme
