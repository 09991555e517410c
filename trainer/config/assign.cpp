#include "trainer/config/assign.h"

#include <algorithm>

#include "model/base/error.h"
#include "trainer/config/item_readers.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

bool is_step(std::string_view text) {
  return !text.empty() && text.size() <= 12 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Assigns one option. A value that is an alternative of Slot has one overload; each reads the whole
// value first, so that a bad one changes nothing.
class Assigner {
 public:
  explicit Assigner(ValueReader& reader) : reader_(reader), option_(reader.option()) {}

  void set(const toml::node& node, bool* to) { take(reader_.boolean(node), to); }
  void set(const toml::node& node, std::int64_t* to) {
    take(reader_.integer(node, option_.range), to);
  }
  void set(const toml::node& node, double* to) { take(reader_.number(node, option_.range), to); }
  void set(const toml::node& node, std::filesystem::path* to) { take(reader_.path(node), to); }

  void set(const toml::node& node, std::string* to) {
    if (option_.or_step && node.is_integer() && node.as_integer()->get() >= 0) {
      *to = std::to_string(node.as_integer()->get());
      if (is_step(*to)) return;
    }
    const std::string* text =
        reader_.text(node, option_.or_step ? "a string or a step number" : "text");
    if (text == nullptr) return;
    if (option_.or_path && is_misspelt(*text)) {
      reader_.not_allowed(node, *text, option_.allowed);
    } else if (option_.or_path && !text->empty() && !is_allowed(*text)) {
      if (const auto whole = reader_.path(node)) *to = whole->native();
    } else if (is_acceptable(*text)) {
      *to = *text;
    } else {
      reader_.not_allowed(node, *text, option_.allowed);
    }
  }

  template <class Enum>
  requires std::is_enum_v<Enum>
  void set(const toml::node& node, Enum* to) {
    take(reader_.choice<Enum>(node, option_.allowed), to);
  }

  void set(const toml::node& node, std::vector<std::int64_t>* to) {
    take(
        reader_.items(node, "a list of integers, [6, 6, 5, 5]",
                      [&](const toml::node& item) { return reader_.integer(item, option_.range); }),
        to);
  }

  void set(const toml::node& node, std::vector<std::string>* to) {
    take(reader_.items(node, "a list of strings, [\"...\", \"...\"]",
                       [&](const toml::node& item) { return word(item); }),
         to);
  }

  void set(const toml::node& node, std::vector<LayerType>* to) {
    take(reader_.items(node, "a list of strings, [\"...\", \"...\"]",
                       [&](const toml::node& item) {
                         return reader_.choice<LayerType>(item, option_.allowed);
                       }),
         to);
  }

  void set(const toml::node& node, std::vector<data::SampleRange>* to) {
    take(reader_.items(node, "a list of ranges, [[first, end], ...]",
                       [&](const toml::node& item) { return read_sample_range(reader_, item); }),
         to);
  }

  void set(const toml::node& node, std::vector<BatchSize>* to) {
    take(reader_.items(node, "a list, [[from_step, sequences], ...]",
                       [&](const toml::node& item) { return read_batch_size(reader_, item); }),
         to);
  }

  void set(const toml::node& node, std::vector<DataSource>* to) {
    take(read_sources(reader_, node), to);
  }

  void set(const toml::node& node, std::vector<DataStage>* to) {
    take(reader_.items(node, "a list, [{ from_step = 1000, train = [...] }, ...]",
                       [&](const toml::node& item) { return read_stage(reader_, item); }),
         to);
  }

  void set(const toml::node& node, RopeScaling* to) { read_rope_scaling(reader_, node, to); }

 private:
  template <class T>
  static void take(std::optional<T> value, T* to) {
    if (value) *to = std::move(*value);
  }

  std::optional<std::string> word(const toml::node& node) {
    const std::string* text = reader_.text(node);
    if (text == nullptr) return std::nullopt;
    if (!option_.or_path) return *text;
    const auto whole = reader_.path(node);
    return whole ? std::optional(whole->native()) : std::nullopt;
  }

  bool is_allowed(const std::string& text) const {
    return std::find(option_.allowed.begin(), option_.allowed.end(), text) != option_.allowed.end();
  }

  bool is_acceptable(const std::string& text) const {
    if (option_.allowed.empty() || is_allowed(text)) return true;
    if (option_.or_step && is_step(text)) return true;
    const bool is_optional = option_.key == "model.flavor" || option_.or_path;
    return text.empty() && is_optional;
  }

  // True if a value that may be a path is likely a mistyped allowed value: with several allowed
  // values any word without a dot or slash, such as "1f1b".
  bool is_misspelt(const std::string& text) const {
    const bool is_word = !text.empty() && text.find_first_of("./") == std::string::npos;
    return is_word && !is_allowed(text) && option_.allowed.size() > 1;
  }

  ValueReader& reader_;
  const Option& option_;
};

}  // namespace

void assign(const Option& option, const toml::node& node, const std::filesystem::path& folder,
            RunConfig& config, std::vector<ValueFinding>& findings) {
  ValueReader reader(option, folder, findings);
  Assigner assigner(reader);
  std::visit([&](auto* member) { assigner.set(node, member); }, option.slot(config));
}

}  // namespace trireme
