#include "trainer/config/assign.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "model/base/error.h"
#include "trainer/config/hints.h"
#include "trainer/config/local_path.h"
#include "trainer/config/metric_name.h"
#include "trainer/config/rope_members.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

std::string type_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::string:
      return "text";
    case toml::node_type::integer:
      return "an integer";
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::table:
      return "a table";
    default:
      return "a date or time";
  }
}

bool is_inside(const Range& range, double x) {
  if (!std::isfinite(x)) return false;
  return (range.above ? x > range.least : x >= range.least) &&
         (range.below ? x < range.most : x <= range.most);
}

std::string quoted_list(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + to_toml(word);
  return list;
}

std::string whole_number_words(double value) {
  constexpr double kMost = 9e15;
  const bool is_whole = std::abs(value) <= kMost && std::trunc(value) == value;
  return is_whole ? say("must be an integer: write ", static_cast<std::int64_t>(value),
                        ", without a point or an exponent")
                  : "must be an integer, without a fraction";
}

bool is_step(std::string_view text) {
  return !text.empty() && text.size() <= 12 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Assigns one option. A value that is an alternative of Slot has one overload; each
// reads into a local first, so that a bad value changes nothing.
class Assigner {
 public:
  Assigner(const Option& option, const std::filesystem::path& folder,
           std::vector<ValueFinding>& findings)
      : option_(option), folder_(folder), findings_(findings) {}

  void set(const toml::node& node, bool* to) {
    if (const auto* value = node.as_boolean()) {
      *to = value->get();
    } else {
      wrong_type(node, "true or false");
    }
  }

  void set(const toml::node& node, std::int64_t* to) {
    if (const auto value = integer(node, option_.range)) *to = *value;
  }

  void set(const toml::node& node, double* to) {
    if (const auto value = number(node, option_.range)) *to = *value;
  }

  void set(const toml::node& node, std::string* to) {
    if (option_.or_step && node.is_integer() && node.as_integer()->get() >= 0) {
      *to = std::to_string(node.as_integer()->get());
      if (is_step(*to)) return;
    }
    const auto* value = node.as_string();
    if (value == nullptr) {
      wrong_type(node, option_.or_step ? "a string or a step number" : "text");
      return;
    }
    const std::string& text = value->get();
    if (option_.or_path && is_misspelt(text)) {
      not_allowed(node, text);
    } else if (option_.or_path && !text.empty() && !is_allowed(text)) {
      if (const auto whole = path(node)) *to = whole->native();
    } else if (is_acceptable(text)) {
      *to = text;
    } else {
      not_allowed(node, text);
    }
  }

  void set(const toml::node& node, std::filesystem::path* to) {
    if (auto value = path(node)) *to = std::move(*value);
  }

  template <class Enum>
  requires std::is_enum_v<Enum>
  void set(const toml::node& node, Enum* to) { set_choice(node, *to, option_.allowed); }

  void set(const toml::node& node, std::vector<std::int64_t>* to) {
    const toml::array* list = node.as_array();
    if (list == nullptr) return wrong_type(node, "a list of integers, [6, 6, 5, 5]");
    const std::size_t before = findings_.size();
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 0; i < list->size(); ++i) {
      part_ = say("[", i, "]");
      if (const auto value = integer(*list->get(i), option_.range)) numbers.push_back(*value);
    }
    part_.clear();
    if (findings_.size() == before) *to = std::move(numbers);
  }

  void set(const toml::node& node, std::vector<std::string>* to) {
    const toml::array* list = node.as_array();
    if (list == nullptr) return wrong_type(node, "a list of strings, [\"...\", \"...\"]");
    std::vector<std::string> words;
    for (const toml::node& item : *list) {
      const auto* word = item.as_string();
      if (word == nullptr) return wrong_type(item, "text");
      if (!option_.or_path) {
        words.push_back(word->get());
      } else if (const auto whole = path(item)) {
        words.push_back(whole->native());
      } else {
        return;
      }
    }
    *to = std::move(words);
  }

  void set(const toml::node& node, std::vector<data::SampleRange>* to) {
    const toml::array* list = node.as_array();
    if (list == nullptr) return wrong_type(node, "a list of ranges, [[first, end], ...]");
    const std::size_t before = findings_.size();
    std::vector<data::SampleRange> ranges;
    for (std::size_t i = 0; i < list->size(); ++i) {
      part_ = say("[", i, "]");
      if (const auto found = sample_range(*list->get(i))) ranges.push_back(*found);
    }
    part_.clear();
    if (findings_.size() == before) *to = std::move(ranges);
  }

  void set(const toml::node& node, std::vector<BatchSize>* to) {
    const toml::array* list = node.as_array();
    if (list == nullptr) return wrong_type(node, "a list, [[from_step, sequences], ...]");
    const std::size_t before = findings_.size();
    std::vector<BatchSize> sizes;
    for (std::size_t i = 0; i < list->size(); ++i) {
      part_ = say("[", i, "]");
      if (const auto found = batch_size(*list->get(i))) sizes.push_back(*found);
    }
    part_.clear();
    if (findings_.size() == before) *to = std::move(sizes);
  }

  void set(const toml::node& node, std::vector<DataSource>* to) {
    const std::size_t before = findings_.size();
    std::vector<DataSource> found = sources(node);
    if (findings_.size() == before) *to = std::move(found);
  }

  void set(const toml::node& node, std::vector<DataStage>* to) {
    const toml::array* list = node.as_array();
    if (list == nullptr) {
      return wrong_type(node, "a list, [{ from_step = 1000, train = [...] }, ...]");
    }
    const std::size_t before = findings_.size();
    std::vector<DataStage> stages;
    for (std::size_t i = 0; i < list->size(); ++i) {
      part_ = say("[", i, "]");
      stages.push_back(stage(*list->get(i)));
    }
    part_.clear();
    if (findings_.size() == before) *to = std::move(stages);
  }

  // A table without a type changes members of the present one.
  void set(const toml::node& node, RopeScaling* to) {
    const std::string outer = part_;
    set_rope(node, outer, to);
    part_ = outer;
  }

 private:
  void set_rope(const toml::node& node, const std::string& outer, RopeScaling* to) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      wrong_type(node, "a table, { rope_type = \"llama3\", factor = 8.0 }");
      return;
    }
    const std::size_t before = findings_.size();
    for (auto&& [key, value] : *table) {
      part_ = say(outer, ".", key.str());
      if (key != "rope_type" && !find_rope_member(key.str())) {
        // "type" is its older name in Hugging Face's configs.
        unknown(key, value,
                key == "type" ? std::vector<std::string>{"rope_type"} : rope_member_names());
      }
    }
    part_ = outer;
    if (findings_.size() != before) return;
    if (to->type == RopeScaling::Type::kDefault && !table->contains("rope_type")) {
      return complain(node, say("needs rope_type, one of ", quoted_list(rope_type_names())));
    }
    RopeScaling rope = *to;
    read_rope(*table, outer, rope);
    part_ = outer;
    if (findings_.size() != before) return;
    const std::string problem = problem_of(rope);
    if (!problem.empty()) return complain(node, problem);
    *to = std::move(rope);
  }

  void complain(const toml::node& node, std::string what) {
    findings_.push_back({part_, shown(node), std::move(what), node.source().begin});
  }

  void wrong_type(const toml::node& node, std::string_view wanted) {
    complain(node, say("must be ", wanted, ", not ", type_of(node)));
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

  template <class Enum>
  void set_choice(const toml::node& node, Enum& to, const std::vector<std::string>& allowed) {
    const auto* value = node.as_string();
    if (value == nullptr) return wrong_type(node, "text");
    const auto names = names_of_values(to);
    const auto found = std::find(names.begin(), names.end(), value->get());
    if (found == names.end()) return not_allowed(node, value->get(), allowed);
    to = static_cast<Enum>(found - names.begin());
  }

  void not_allowed(const toml::node& node, const std::string& text) {
    not_allowed(node, text, option_.allowed);
  }
  void not_allowed(const toml::node& node, const std::string& text,
                   const std::vector<std::string>& allowed) {
    std::string what = say("must be one of ", quoted_list(allowed));
    if (option_.or_step) what += " or a step number";
    if (option_.or_path) what += " or the path of a file, with a dot or a slash in it";
    const std::string near = nearest_value(text, allowed);
    complain(node, near.empty() ? what : say(what, "; did you mean ", to_toml(near), "?"));
  }

  std::optional<std::int64_t> integer(const toml::node& node, const Range& range) {
    const auto* value = node.as_integer();
    if (const auto* real = node.as_floating_point()) {
      complain(node, whole_number_words(real->get()));
    } else if (value == nullptr) {
      wrong_type(node, "an integer");
    } else if (!is_inside(range, static_cast<double>(value->get()))) {
      complain(node, "must be " + range_words(range));
    } else {
      return value->get();
    }
    return std::nullopt;
  }

  std::optional<double> number(const toml::node& node, const Range& range) {
    std::optional<double> value;
    if (const auto* real = node.as_floating_point()) value = real->get();
    if (const auto* whole = node.as_integer()) value = static_cast<double>(whole->get());
    if (!value) {
      wrong_type(node, "a number");
    } else if (!std::isfinite(*value)) {
      complain(node, "must be finite");
      value.reset();
    } else if (!is_inside(range, *value)) {
      complain(node, "must be " + range_words(range));
      value.reset();
    }
    return value;
  }

  std::optional<std::filesystem::path> path(const toml::node& node) {
    const auto* value = node.as_string();
    if (value == nullptr) {
      wrong_type(node, "a path in quotes");
    } else if (value->get().empty()) {
      complain(node, "must not be empty");
    } else if (value->get().find('\0') != std::string::npos) {
      complain(node, "a path cannot contain a NUL character");
    } else if (const LocalPath local = local_path(value->get()); !local.problem.empty()) {
      complain(node, local.problem);
    } else if (option_.stays_relative) {
      return std::filesystem::path(local.path);
    } else {
      return (folder_ / local.path).lexically_normal();
    }
    return std::nullopt;
  }

  std::optional<data::SampleRange> sample_range(const toml::node& node) {
    const toml::array* pair = node.as_array();
    if (pair == nullptr) {
      wrong_type(node, "a range, [first, end]");
      return std::nullopt;
    }
    if (pair->size() != 2) {
      complain(node, say("must be two sample numbers, [first, end], not ", pair->size()));
      return std::nullopt;
    }
    const auto first = integer(*pair->get(0), option_.range);
    const auto end = integer(*pair->get(1), option_.range);
    if (!first || !end) return std::nullopt;
    if (*first >= *end) {
      complain(node, "is empty: its end must be above its first");
      return std::nullopt;
    }
    return data::SampleRange{static_cast<std::uint64_t>(*first), static_cast<std::uint64_t>(*end)};
  }

  std::optional<BatchSize> batch_size(const toml::node& node) {
    const toml::array* pair = node.as_array();
    if (pair == nullptr) {
      wrong_type(node, "a pair, [from_step, sequences]");
      return std::nullopt;
    }
    if (pair->size() != 2) {
      complain(node, say("must be two numbers, [from_step, sequences], not ", pair->size()));
      return std::nullopt;
    }
    const auto from_step = integer(*pair->get(0), {.least = 1, .most = 1e12});
    const auto sequences = integer(*pair->get(1), option_.range);
    if (!from_step || !sequences) return std::nullopt;
    return BatchSize{*from_step, *sequences};
  }

  std::vector<DataSource> sources(const toml::node& node) {
    const toml::array* list = node.as_array();
    if (list == nullptr) {
      wrong_type(node, "a list, [{ path = \"PREFIX\", weight = 1.0 }, ...]");
      return {};
    }
    const std::string outer = part_;
    std::vector<DataSource> sources;
    for (std::size_t i = 0; i < list->size(); ++i) {
      part_ = say(outer, "[", i, "]");
      sources.push_back(source(*list->get(i)));
    }
    part_ = outer;
    return sources;
  }

  DataStage stage(const toml::node& node) {
    DataStage stage;
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      wrong_type(node, "a table, { from_step = 1000, train = [...] }");
      return stage;
    }
    const std::string item = part_;
    if (!table->contains("from_step")) complain(node, "needs from_step");
    if (!table->contains("train") && !table->contains("seq_len") &&
        !table->contains("rope_scaling")) {
      complain(node, "changes nothing; it needs train, seq_len or rope_scaling");
    }
    for (auto&& [key, value] : *table) {
      part_ = say(item, ".", key.str());
      if (key == "from_step") {
        stage.from_step = integer(value, option_.range).value_or(0);
      } else if (key == "train") {
        stage.train = sources(value);
        if (const toml::array* list = value.as_array(); list && list->empty()) {
          complain(value, "no training data; give train = [{ path = \"PREFIX\" }]");
        }
      } else if (key == "seq_len") {
        const Range& range = find_option("training.seq_len")->range;
        stage.seq_len = integer(value, range).value_or(0);
      } else if (key == "rope_scaling") {
        set(value, &stage.rope_scaling.emplace());
      } else {
        unknown(key, value, {"from_step", "train", "seq_len", "rope_scaling"});
      }
    }
    return stage;
  }

  DataSource source(const toml::node& node) {
    DataSource source;
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      wrong_type(node, "a table, { path = \"PREFIX\", weight = 1.0 }");
      return source;
    }
    const std::string item = part_;
    if (!table->contains("path")) complain(node, "needs a path");
    for (auto&& [key, value] : *table) {
      part_ = say(item, ".", key.str());
      if (key == "path") {
        if (auto found = path(value)) source.path = std::move(*found);
      } else if (key == "weight") {
        const Range positive{.least = 0, .most = 1e9, .above = true};
        if (const auto found = number(value, positive)) source.weight = *found;
      } else if (key == "name" && option_.key == "data.validation") {
        const auto* name = value.as_string();
        if (name == nullptr) {
          wrong_type(value, "text");
        } else if (!is_metric_name(name->get())) {
          complain(value, say("must be ", kMetricNameWords));
        } else {
          source.name = name->get();
        }
      } else if (option_.key == "data.validation") {
        unknown(key, value, {"path", "weight", "name"});
      } else {
        unknown(key, value, {"path", "weight"});
      }
    }
    return source;
  }

  void read_rope(const toml::table& table, const std::string& outer, RopeScaling& rope) {
    if (const toml::node* const type = table.get("rope_type")) {
      part_ = outer + ".rope_type";
      RopeScaling::Type chosen = rope.type;
      set_choice(*type, chosen, rope_type_names());
      if (chosen != rope.type) {
        rope = RopeScaling{.type = chosen};
        if (chosen == RopeScaling::Type::kLlama3) rope.original_max_position_embeddings = 8192;
      }
    }
    for (const RopeMember& member : rope_members()) {
      const toml::node* const value = table.get(member.name);
      if (value == nullptr) continue;
      part_ = say(outer, ".", member.name);
      if (!member.is_of(rope.type)) {
        complain(*value, say("does not apply to rope_type ", to_toml(name_of_value(rope.type)),
                             "; remove it"));
        continue;
      }
      std::visit([&](auto pointer) { set_member(*value, member.range, &(rope.*pointer)); },
                 member.pointer);
    }
  }

  void set_member(const toml::node& node, const Range& range, std::int64_t* to) {
    if (const auto value = integer(node, range)) *to = *value;
  }
  void set_member(const toml::node& node, const Range& range, double* to) {
    if (const auto value = number(node, range)) *to = *value;
  }
  void set_member(const toml::node& node, const Range&, bool* to) { set(node, to); }
  void set_member(const toml::node& node, const Range& range, std::vector<double>* to) {
    const toml::array* list = node.as_array();
    if (list == nullptr) return wrong_type(node, "a list of numbers");
    std::vector<double> numbers;
    for (const toml::node& item : *list) {
      if (const auto value = number(item, range)) numbers.push_back(*value);
    }
    *to = std::move(numbers);
  }

  void unknown(const toml::key& key, const toml::node& value,
               const std::vector<std::string>& known) {
    const std::string near = nearest(key.str(), known);
    const std::string hint =
        near.empty() ? say("it may have ", quoted_list(known)) : say("did you mean ", near, "?");
    findings_.push_back({part_, shown(value), "unknown key; " + hint, key.source().begin});
  }

  const Option& option_;
  const std::filesystem::path& folder_;
  std::vector<ValueFinding>& findings_;
  std::string part_;
};

}  // namespace

void assign(const Option& option, const toml::node& node, const std::filesystem::path& folder,
            RunConfig& config, std::vector<ValueFinding>& findings) {
  Assigner assigner(option, folder, findings);
  std::visit([&](auto* member) { assigner.set(node, member); }, option.slot(config));
}

std::string shown(const toml::node& node) {
  if (const auto* text = node.as_string()) return shown(to_toml(text->get()));
  if (const auto* number = node.as_floating_point()) return to_toml(number->get());
  std::ostringstream out;
  node.visit([&out](const auto& value) { out << value; });
  return shown(out.str());
}

}  // namespace trireme
