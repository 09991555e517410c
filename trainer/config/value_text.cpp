#include "trainer/config/value_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "trainer/config/rope_members.h"

namespace trireme {
namespace {

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

std::string escaped(char c) {
  if (c == '"' || c == '\\') return {'\\', c};
  if (c == '\n') return "\\n";
  if (c == '\t') return "\\t";
  if (is_control(c)) return fmt::format("\\u{:04X}", static_cast<unsigned>(c));
  return {c};
}

std::string text_of(const std::vector<DataSource>& sources) {
  std::string list;
  for (const DataSource& source : sources) {
    const std::string name =
        source.name.empty() ? "" : fmt::format(", name = {}", to_toml(source.name));
    list += fmt::format("{}{{ path = {}, weight = {}{} }}", list.empty() ? "" : ", ",
                        to_toml(source.path.native()), to_toml(source.weight), name);
  }
  return "[" + list + "]";
}

std::string text_of(const std::vector<DataStage>& stages) {
  std::string list;
  for (const DataStage& stage : stages) {
    list += fmt::format("{}{{ from_step = {}", list.empty() ? "" : ", ", stage.from_step);
    if (!stage.train.empty()) list += ", train = " + text_of(stage.train);
    if (stage.seq_len > 0) list += fmt::format(", seq_len = {}", stage.seq_len);
    if (stage.rope_scaling) list += ", rope_scaling = " + text_of(*stage.rope_scaling);
    list += " }";
  }
  return "[" + list + "]";
}

std::string text_of(const std::vector<std::int64_t>& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

std::string text_of(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + to_toml(word);
  return "[" + list + "]";
}

std::string text_of(const std::vector<LayerType>& types) {
  std::vector<std::string> words;
  for (const LayerType type : types) words.emplace_back(name_of_value(type));
  return text_of(words);
}

std::string text_of(const std::vector<data::SampleRange>& ranges) {
  std::string list;
  for (const data::SampleRange& range : ranges) {
    list += fmt::format("{}[{}, {}]", list.empty() ? "" : ", ", range.first, range.end);
  }
  return "[" + list + "]";
}

std::string text_of(const std::vector<BatchSize>& sizes) {
  std::string list;
  for (const BatchSize& size : sizes) {
    list += fmt::format("{}[{}, {}]", list.empty() ? "" : ", ", size.from_step, size.sequences);
  }
  return "[" + list + "]";
}

struct Printer {
  std::string operator()(const bool* value) const { return *value ? "true" : "false"; }
  std::string operator()(const std::int64_t* value) const { return std::to_string(*value); }
  std::string operator()(const double* value) const { return to_toml(*value); }
  std::string operator()(const std::string* value) const { return to_toml(*value); }
  std::string operator()(const std::filesystem::path* value) const {
    return to_toml(value->native());
  }
  std::string operator()(const std::vector<std::int64_t>* value) const { return text_of(*value); }
  std::string operator()(const std::vector<std::string>* value) const { return text_of(*value); }
  std::string operator()(const std::vector<LayerType>* value) const { return text_of(*value); }
  std::string operator()(const std::vector<DataSource>* value) const { return text_of(*value); }
  std::string operator()(const std::vector<DataStage>* value) const { return text_of(*value); }
  std::string operator()(const std::vector<data::SampleRange>* value) const {
    return text_of(*value);
  }
  std::string operator()(const std::vector<BatchSize>* value) const { return text_of(*value); }
  template <class Enum>
  requires std::is_enum_v<Enum> std::string operator()(const Enum* value) const {
    return to_toml(name_of_value(*value));
  }
  std::string operator()(const RopeScaling* value) const { return text_of(*value); }
};

// Whole numbers without the ".0" that TOML requires.
std::string plain(double x) {
  const bool is_whole = x == std::floor(x) && std::abs(x) < 1e15;
  return is_whole ? std::to_string(static_cast<std::int64_t>(x)) : to_toml(x);
}

}  // namespace

std::string to_toml(const Slot& slot) {
  return std::visit(Printer{}, slot);
}

std::string to_toml(double number) {
  std::string text = fmt::format("{}", number);  // shortest text that reads back
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string to_toml(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += escaped(c);
  return quoted + "\"";
}

std::string range_words(const Range& range) {
  constexpr double kNoLimit = 9e18;  // limits above are not shown
  const bool has_least = std::isfinite(range.least);
  const bool has_most = range.most < kNoLimit;
  if (has_least && has_most && !range.above && !range.below) {
    return "between " + plain(range.least) + " and " + plain(range.most);
  }
  std::string words;
  if (has_least) words = (range.above ? "above " : "at least ") + plain(range.least);
  if (has_least && has_most) words += " and ";
  if (has_most) words += (range.below ? "below " : "at most ") + plain(range.most);
  return words.empty() ? "finite" : words;
}

std::string shown(std::string_view text, std::size_t limit) {
  std::string line;
  for (const char c : text.substr(0, limit)) line += is_control(c) ? ' ' : c;
  if (text.size() <= limit) return line;
  // Do not cut a UTF-8 character in two.
  while (!line.empty() && (static_cast<unsigned char>(line.back()) & 0xC0) == 0x80) {
    line.pop_back();
  }
  if (!line.empty() && static_cast<unsigned char>(line.back()) >= 0xC0) line.pop_back();
  return line + "...";
}

}  // namespace trireme
