#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

// A token that is found in the text before anything else cuts it.
struct AddedToken {
  std::int32_t id = 0;
  std::string content{};
  bool takes_left = false;   // the white space before it ("lstrip")
  bool takes_right = false;  // and after it ("rstrip")
  bool normalized = false;   // looked for in the normalized text
  bool special = false;
};

// Finds added tokens in a text: the leftmost, of those the longest.
class AddedTokens {
 public:
  explicit AddedTokens(std::vector<AddedToken> tokens);
  bool empty() const { return tokens_.empty(); }

  // Calls `part` for the parts of `text` in order: `id` -1 between tokens.
  void split(std::string_view text,
             const std::function<void(std::string_view part, std::int32_t id)>& part) const;

 private:
  const AddedToken* at(std::string_view text) const;  // that begins here

  std::vector<AddedToken> tokens_;  // by first byte, then the longest first
  struct Bucket {
    std::uint32_t begin = 0, end = 0;  // in tokens_
    std::string common{};              // what all its tokens begin with
  };
  std::array<Bucket, 256> buckets_;  // by first byte
};

}  // namespace trireme::data
