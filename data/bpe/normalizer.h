#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/bpe/json_section.h"
#include "data/bpe/replacement.h"

namespace trireme::data {

struct NormalizerStep {
  enum class Kind { kNfc, kPrepend, kReplace };
  Kind kind = Kind::kNfc;
  PatternSpec pattern{};  // of kReplace
  std::string content{};  // of kPrepend and kReplace
};

// Steps of the "normalizer" section. Throws DataError naming a type that is not implemented.
std::vector<NormalizerStep> parse_normalizer(const JsonSection& section);

// Applies the steps of a normalizer in order. Thread-safe.
class Normalizer {
 public:
  explicit Normalizer(const std::vector<NormalizerStep>& steps);
  bool empty() const { return steps_.empty(); }
  // The normalized form of `text`, valid UTF-8: `text` itself or the content of `buffer`. A text
  // that `continues` another gets no prefix.
  std::string_view apply(MatchRoom& room, std::string_view text, bool continues,
                         std::string& buffer) const;

 private:
  struct Step {
    NormalizerStep::Kind kind;
    std::string prefix;
    std::optional<Replacement> replacement;
  };
  std::vector<Step> steps_;
};

}  // namespace trireme::data
