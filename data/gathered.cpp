#include "data/gathered.h"

#include <map>
#include <utility>

namespace trireme::data {

Gathered gather(std::vector<std::vector<SourceSpec>> lists) {
  Gathered all;
  std::map<std::pair<std::filesystem::path, int>, std::size_t> known;  // by prefix and repetition
  for (std::vector<SourceSpec>& list : lists) {
    std::map<std::filesystem::path, int> repetitions;
    auto& places = all.places.emplace_back();
    for (SourceSpec& source : list) {
      const auto key = std::pair(source.prefix, repetitions[source.prefix]++);
      const auto [found, is_new] = known.try_emplace(key, all.sources.size());
      places.push_back(found->second);
      if (is_new) all.sources.push_back(std::move(source));
    }
  }
  return all;
}

}  // namespace trireme::data
