#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

// A token that is matched in the text before pre-tokenization.
struct AddedToken {
  std::int32_t id = 0;
  std::string content{};
  bool takes_left = false;   // also consumes preceding white space ("lstrip")
  bool takes_right = false;  // also consumes following white space ("rstrip")
  bool normalized = false;   // matched in the normalized text
  bool special = false;
};

// Finds added tokens in a text: leftmost, then longest match.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);
  bool empty() const { return tokens_.empty(); }

  // Calls `part` for consecutive parts of `text`; `id` is -1 for text between added tokens.
  void split(std::string_view text,
             const std::function<void(std::string_view part, std::int32_t id)>& part) const;

 private:
  const AddedToken* at(std::string_view text) const;  // longest match at the front

  std::vector<AddedToken> tokens_;  // sorted by first byte, then longest first
  struct Bucket {
    std::uint32_t begin = 0, end = 0;  // in tokens_
    std::string common{};              // common prefix of its tokens
  };
  std::array<Bucket, 256> buckets_;        // by first byte
  std::array<bool, 256> is_first_byte_{};  // of any token
};

}  // namespace trireme::data
