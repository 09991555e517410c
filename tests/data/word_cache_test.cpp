#include "data/word_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trireme::data {
namespace {

// Every word of up to 8 bytes of an alphabet that includes NUL, and longer ones around the sizes
// where a word stops being short and stops being cached.
std::vector<std::string> similar_words() {
  std::vector<std::string> words{""};
  for (std::size_t begin = 0; words.back().size() < 8;) {
    const std::size_t end = words.size();
    for (; begin < end; ++begin) {
      for (const char c : {'a', '\0', '\xFF'}) words.push_back(words[begin] + c);
    }
  }
  words.erase(words.begin());
  for (const std::size_t size : {9, 15, 16, 17, 33, 64}) {
    for (std::size_t at = 0; at < size; ++at) {
      words.emplace_back(size, 'a');
      words.back()[at] = 'b';
    }
  }
  return words;
}

std::vector<std::int32_t> ids_of(std::size_t number) {
  return std::vector<std::int32_t>(number % 6, static_cast<std::int32_t>(number));
}

TEST(WordCacheTest, similar_words_keep_their_own_ids) {
  const std::vector<std::string> words = similar_words();
  WordCache cache;
  for (std::size_t i = 0; i < words.size(); ++i) {
    ASSERT_FALSE(cache.find(words[i])) << i;
    cache.add(words[i], ids_of(i));
  }
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto found = cache.find(words[i]);
    ASSERT_TRUE(found) << i;
    ASSERT_EQ(std::vector(found->begin(), found->end()), ids_of(i)) << i;
  }
}

TEST(WordCacheTest, an_empty_or_long_word_is_not_cached) {
  WordCache cache;
  for (const std::string& word : {std::string(), std::string(65, 'a')}) {
    cache.add(word, std::vector<std::int32_t>{1});
    EXPECT_FALSE(cache.find(word));
  }
}

TEST(WordCacheTest, a_full_cache_begins_again) {
  WordCache cache;
  const std::vector<std::int32_t> ids{7};
  for (int i = 0; i < 600'000; ++i) cache.add(std::to_string(i), ids);
  EXPECT_FALSE(cache.find("0"));
  EXPECT_TRUE(cache.find("599999"));
}

}  // namespace
}  // namespace trireme::data
