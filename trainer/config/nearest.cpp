#include "trainer/config/nearest.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>
#include <vector>

namespace trireme {
namespace {

// What values of ours are called elsewhere.
constexpr std::array<std::pair<std::string_view, std::string_view>, 8> kNamesElsewhere{
    {{"gpu", "cuda"},
     {"fp32", "float32"},
     {"single", "float32"},
     {"bf16", "bfloat16"},
     {"fp16", "float16"},
     {"half", "float16"},
     {"fp8", "float8"},
     {"cos", "cosine"}}};

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char one, char other) {
    return std::tolower(static_cast<unsigned char>(one)) ==
           std::tolower(static_cast<unsigned char>(other));
  });
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  const std::size_t width = b.size() + 1;
  std::vector<std::size_t> cost((a.size() + 1) * width);
  for (std::size_t j = 0; j < width; ++j) cost[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    cost[i * width] = i;
    for (std::size_t j = 1; j < width; ++j) {
      const std::size_t replaced = cost[(i - 1) * width + j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      std::size_t best =
          std::min({replaced, cost[(i - 1) * width + j] + 1, cost[i * width + j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        best = std::min(best, cost[(i - 2) * width + j - 2] + 1);
      }
      cost[i * width + j] = best;
    }
  }
  return cost.back();
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  constexpr std::size_t kLongestWord = 64;  // longer words are not typos
  if (word.size() > kLongestWord) return {};
  std::string best;
  std::size_t best_distance = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < candidate.size()) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string nearest_value(std::string_view word, std::span<const std::string> candidates) {
  for (const std::string& candidate : candidates) {
    if (same_letters(word, candidate)) return candidate;
    for (const auto& [elsewhere, ours] : kNamesElsewhere) {
      if (same_letters(word, elsewhere) && ours == candidate) return candidate;
    }
  }
  return nearest(word, candidates);
}

}  // namespace trireme
