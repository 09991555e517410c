#include "trainer/config/reference.h"

#include "model/base/error.h"
#include "trainer/config/difference.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

struct TypeName {
  std::string operator()(const bool*) const { return "bool"; }
  std::string operator()(const std::int64_t*) const { return "integer"; }
  std::string operator()(const double*) const { return "number"; }
  std::string operator()(const std::string*) const { return "text"; }
  std::string operator()(const std::filesystem::path*) const { return "path"; }
  std::string operator()(const std::vector<std::int64_t>*) const { return "list"; }
  std::string operator()(const std::vector<std::string>*) const { return "list"; }
  std::string operator()(const std::vector<LayerType>*) const { return "list"; }
  std::string operator()(const std::vector<DataSource>*) const { return "list"; }
  std::string operator()(const std::vector<DataStage>*) const { return "list"; }
  std::string operator()(const std::vector<data::SampleRange>*) const { return "list"; }
  std::string operator()(const std::vector<BatchSize>*) const { return "list"; }
  template <class Enum>
  requires std::is_enum_v<Enum> std::string operator()(const Enum*) const { return "text"; }
  std::string operator()(const RopeScaling*) const { return "table"; }
};

std::string type_text(const Option& option) {
  RunConfig config;
  return std::visit(TypeName{}, option.slot(config));
}

std::string default_text(const Option& option) {
  if (!option.default_text.empty()) return option.default_text;
  RunConfig config;
  return to_toml(option.slot(config));
}

std::string allowed_text(const Option& option) {
  std::string text;
  for (const std::string& word : option.allowed) text += (text.empty() ? "" : ", ") + word;
  if (option.or_step) text += ", or a step number";
  if (option.or_path) text += text.empty() ? "a path" : ", or a path";
  RunConfig config;
  const Slot slot = option.slot(config);
  if (std::holds_alternative<std::int64_t*>(slot) || std::holds_alternative<double*>(slot)) {
    text = range_words(option.range);
  }
  if (!option.unit.empty()) text += say(text.empty() ? "" : "; ", "in ", option.unit);
  return text;
}

std::string help_text(const Option& option) {
  std::string text = option.help;
  for (const std::string& alias : option.aliases) text += say(" (also ", alias, ")");
  return text;
}

std::string for_table(const std::string& text) {
  std::string cell;
  for (const char c : text) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell;
}

}  // namespace

OptionDocs docs_of(const Option& option) {
  return {.type = type_text(option),
          .default_value = default_text(option),
          .allowed = allowed_text(option),
          .help = help_text(option),
          .on_resume = effect_text(option.effect)};
}

std::string reference_text() {
  std::string text;
  for (const Option& option : options()) {
    const OptionDocs words = docs_of(option);
    text += say(option.key, " (", words.type, ", default ", words.default_value, ")\n    ",
                words.help, "\n");
    if (!words.allowed.empty()) text += say("    allowed: ", words.allowed, "\n");
    text += say("    on resume: ", words.on_resume, "\n");
  }
  return text;
}

std::string reference_markdown() {
  std::string text;
  std::string section;
  for (const Option& option : options()) {
    if (option.section() != section) {
      text += say(section.empty() ? "" : "\n", "## [", option.section(), "]\n\n",
                  "| key | type | default | allowed | meaning | on resume |\n",
                  "|---|---|---|---|---|---|\n");
      section = option.section();
    }
    const OptionDocs words = docs_of(option);
    text +=
        say("| `", option.name(), "` | ", words.type, " | ", for_table(words.default_value), " | ",
            for_table(words.allowed), " | ", for_table(words.help), " | ", words.on_resume, " |\n");
  }
  return text;
}

}  // namespace trireme
