#pragma once
#include <toml++/toml.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "trainer/config/option.h"
#include "trainer/config/value_text.h"

namespace trireme {

// An error in a value or in a part of it.
struct ValueFinding {
  std::string part;   // "[1].weight"; empty: the value as a whole
  std::string value;  // as given, for messages
  std::string what;
  toml::source_position at;
};

// Reads values of one option from TOML. A value that is wrong adds a finding, and is nullopt, null
// or unchanged.
class ValueReader {
 public:
  // Relative paths are resolved against `folder`.
  ValueReader(const Option& option, const std::filesystem::path& folder,
              std::vector<ValueFinding>& findings)
      : option_(option), folder_(folder), findings_(findings) {}

  // While it lives, findings are of this part of the value: "[1]" or ".weight" of the part around.
  class Part {
   public:
    Part(ValueReader& reader, const std::string& name) : reader_(reader), outer_(reader.part_) {
      reader_.part_ += name;
    }
    ~Part() { reader_.part_ = outer_; }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;

   private:
    ValueReader& reader_;
    std::string outer_;
  };

  const Option& option() const { return option_; }
  std::size_t findings() const { return findings_.size(); }

  std::optional<bool> boolean(const toml::node& node);
  std::optional<std::int64_t> integer(const toml::node& node, const Range& range);
  std::optional<double> number(const toml::node& node, const Range& range);
  std::optional<std::filesystem::path> path(const toml::node& node);
  // `wanted` is the end of "must be ...".
  const std::string* text(const toml::node& node, std::string_view wanted = "text");
  const toml::array* list(const toml::node& node, std::string_view wanted);
  const toml::table* table(const toml::node& node, std::string_view wanted);

  // The items by `read(node)`; nullopt if one of them is wrong.
  template <class Read>
  auto items(const toml::node& node, std::string_view wanted, const Read& read) {
    std::optional<std::vector<std::decay_t<decltype(*read(node))>>> values;
    const std::size_t before = findings();
    const toml::array* all = list(node, wanted);
    if (all == nullptr) return values;
    values.emplace();
    for (std::size_t i = 0; i < all->size(); ++i) {
      const Part part(*this, "[" + std::to_string(i) + "]");
      if (auto value = read(*all->get(i))) values->push_back(std::move(*value));
    }
    if (findings() != before) values.reset();
    return values;
  }

  template <class Enum>
  std::optional<Enum> choice(const toml::node& node, const std::vector<std::string>& allowed) {
    const std::string* word = text(node);
    if (word == nullptr) return std::nullopt;
    const auto names = names_of_values(Enum{});
    const auto found = std::find(names.begin(), names.end(), *word);
    if (found != names.end()) return static_cast<Enum>(found - names.begin());
    not_allowed(node, *word, allowed);
    return std::nullopt;
  }

  void complain(const toml::node& node, std::string what);
  void wrong_type(const toml::node& node, std::string_view wanted);
  void not_allowed(const toml::node& node, const std::string& text,
                   const std::vector<std::string>& allowed);
  void unknown(const toml::key& key, const toml::node& value,
               const std::vector<std::string>& known);

 private:
  const Option& option_;
  const std::filesystem::path& folder_;
  std::vector<ValueFinding>& findings_;
  std::string part_;
};

// The value as TOML on one line.
std::string shown(const toml::node& node);
// "\"a\", \"b\"".
std::string quoted_list(const std::vector<std::string>& words);

}  // namespace trireme
