#include "trainer/loop/generation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/base/philox.h"

namespace trireme {

std::int32_t sample(const std::vector<float>& logits, const Sampling& sampling,
                    std::int64_t position) {
  const auto likeliest = std::max_element(logits.begin(), logits.end());
  if (sampling.temperature <= 0) return static_cast<std::int32_t>(likeliest - logits.begin());

  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (sampling.top_k > 0 && sampling.top_k < static_cast<std::int64_t>(ids.size())) {
    const auto above = [&](std::int32_t a, std::int32_t b) {
      const float x = logits[static_cast<std::size_t>(a)];
      const float y = logits[static_cast<std::size_t>(b)];
      return x != y ? x > y : a < b;
    };
    std::nth_element(ids.begin(), ids.begin() + sampling.top_k, ids.end(), above);
    ids.resize(static_cast<std::size_t>(sampling.top_k));
    std::sort(ids.begin(), ids.end());
  }
  std::vector<double> sums;
  double sum = 0;
  for (const std::int32_t id : ids) {
    sum += std::exp((logits[static_cast<std::size_t>(id)] - *likeliest) / sampling.temperature);
    sums.push_back(sum);
  }
  const auto words =
      philox(random_key(sampling.seed, "generate"), static_cast<std::uint64_t>(position));
  const double draw = sum * (words[0] / 4294967296.0);
  const auto chosen = std::upper_bound(sums.begin(), sums.end() - 1, draw);
  return ids[static_cast<std::size_t>(chosen - sums.begin())];
}

std::vector<std::int32_t> prompt_ids(const data::Tokenizer& tokenizer, const std::string& text) {
  std::vector<std::int32_t> ids = tokenizer.encode(text);
  if (ids.empty()) ids.push_back(std::max(tokenizer.end_of_document(), 0));
  return ids;
}

std::vector<std::int32_t> generate(
    const Generation& generation, const data::Tokenizer& tokenizer, const NextLogits& next_logits,
    const std::function<void(std::span<const std::int32_t> answer)>& on_token) {
  const auto stops = [&](std::int32_t id) {
    const auto& ids = generation.stop_ids;
    return id == tokenizer.end_of_document() || std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  std::vector<std::int32_t> answer;
  std::vector<float> logits = next_logits(generation.prompt);
  for (std::int64_t i = 0; i < generation.max_tokens; ++i) {
    // A padded vocabulary has ids without a token.
    logits.resize(static_cast<std::size_t>(tokenizer.vocab_size()));
    const std::int32_t id = sample(logits, generation.sampling, i);
    if (stops(id)) break;
    answer.push_back(id);
    if (on_token) on_token(answer);
    if (i + 1 < generation.max_tokens) logits = next_logits({&id, 1});
  }
  return answer;
}

}  // namespace trireme
