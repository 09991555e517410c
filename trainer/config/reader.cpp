#include "trainer/config/reader.h"

#include <toml++/toml.h>

#include <algorithm>
#include <deque>
#include <optional>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/stage/model_family.h"
#include "trainer/config/assign.h"
#include "trainer/config/complaints.h"
#include "trainer/config/complete.h"
#include "trainer/config/flavors.h"
#include "trainer/config/hints.h"
#include "trainer/config/nesting.h"
#include "trainer/config/rules.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

constexpr std::size_t kLongestConfig = 1 << 20;  // bytes
constexpr std::string_view kRopePrefix = "model.rope_scaling.";

Origin in_file(const toml::source_position& at) {
  return {Origin::Kind::kFile, at.line, at.column};
}

constexpr Origin kTyped{Origin::Kind::kCommandLine, 0, 0};

bool takes_bare_words(const Option& option) {
  RunConfig config;
  const Slot slot = option.slot(config);
  return std::visit(
      []<class Value>(const Value*) {
        return std::is_enum_v<Value> || std::is_same_v<Value, std::string> ||
               std::is_same_v<Value, std::filesystem::path>;
      },
      slot);
}

class Reader {
 public:
  Reader(const ConfigText& text, std::span<const Override> overrides, Purpose purpose)
      : text_(text), overrides_(overrides), purpose_(purpose) {
    loaded_.source = text.name;
  }

  LoadedConfig read() {
    collect_file();
    for (const Override& override : overrides_) collect(override);
    choose_model();
    for (const Item& item : items_) apply(item);
    complete(loaded_, text_.folder);
    check_rules(loaded_, complaints_, purpose_);
    stop_if_wrong();
    return std::move(loaded_);
  }

 private:
  struct Item {
    const Option* option;
    const toml::node* node;
    Origin origin;
  };

  void stop_if_wrong() const {
    if (!complaints_.empty()) throw ConfigError(complaints_.text(text_.name));
  }

  void collect_file() {
    if (text_.toml.size() > kLongestConfig) {
      complaints_.add({{}, "", "", say("longer than ", kLongestConfig, " bytes: not a config")});
    } else if (const auto at = too_deep(text_.toml)) {
      const Origin origin{Origin::Kind::kFile, at->line, at->column};
      complaints_.add({origin, "", "", "nested too deeply"});
    }
    stop_if_wrong();
    try {
      file_ = toml::parse(text_.toml, text_.name);
    } catch (const toml::parse_error& error) {
      complaints_.add({in_file(error.source().begin), "", "", shown(error.description(), 400)});
      stop_if_wrong();
    }
    const std::vector<std::string> known = sections();
    for (auto&& [key, node] : file_) {
      const std::string name(key.str());
      const Origin origin = in_file(key.source().begin);
      if (std::find(known.begin(), known.end(), name) != known.end()) {
        collect_section(name, node, origin);
      } else if (node.is_table()) {
        const std::string near = nearest(name, known);
        complaints_.add({origin, say("[", shown(name), "]"), "",
                         "unknown section" + did_you_mean(near.empty() ? near : "[" + near + "]")});
      } else {
        complaints_.add({origin, shown(name), shown(node),
                         "keys must be inside a section" + hint_for_key("", name)});
      }
    }
  }

  void collect_section(const std::string& section, const toml::node& node, const Origin& origin) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      complaints_.add({origin, section, shown(node), say("is a section; write [", section, "]")});
      return;
    }
    for (auto&& [key, value] : *table) {
      const std::string full = section + "." + std::string(key.str());
      const Origin at = in_file(key.source().begin);
      const Option* option = find_option(full);
      if (option == nullptr) {
        complaints_.add({at, shown(full), shown(value),
                         "unknown key" + hint_for_key(section, std::string(key.str()))});
      } else if (std::any_of(items_.begin(), items_.end(),
                             [option](const Item& item) { return item.option == option; })) {
        complaints_.add({at, full, shown(value), say("is already set by ", option->key)});
      } else {
        items_.push_back({option, &value, in_file(value.source().begin)});
      }
    }
  }

  void collect(const Override& override) {
    if (const Option* option = find_option(override.key)) {
      const toml::table* table = parse(override, "value", takes_bare_words(*option));
      if (table != nullptr) items_.push_back({option, table->get("value"), kTyped});
    } else if (override.key.starts_with(kRopePrefix)) {
      collect_rope(override);
    } else {
      const std::size_t dot = override.key.find('.');
      complaints_.add({kTyped, shown(override.key), shown(override.value),
                       "unknown key" + hint_for_key(override.key.substr(0, dot),
                                                    override.key.substr(dot + 1), "--")});
    }
  }

  // Collects --model.rope_scaling.factor and similar overrides into one table.
  void collect_rope(const Override& override) {
    const toml::table* part =
        parse(override, override.key.substr(kRopePrefix.size()), /*is_bare=*/false);
    if (part == nullptr) return;
    const Option* rope = find_option("model.rope_scaling");
    if (rope_ == nullptr) {
      rope_ = &typed_.emplace_back();
      items_.push_back({rope, rope_, kTyped});
    }
    for (auto&& [key, value] : *part) rope_->insert_or_assign(key, value);
  }

  // The override as a table of one key; nullopt if it is not TOML.
  const toml::table* parse(const Override& override, const std::string& name, bool is_bare) {
    const std::string& value = override.value;
    const auto refuse = [&](std::string what) {
      complaints_.add({kTyped, shown(override.key), shown(value), std::move(what)});
      return nullptr;
    };
    if (value.empty() && !is_bare) return refuse("needs a value");
    const std::string_view starts = std::string_view(value).substr(0, 1);
    const bool is_quoted = starts == "\"" || starts == "'";
    const bool has_parts = starts == "[" || starts == "{";
    const std::string key = to_toml(name) + " = ";
    if (value.size() > kLongestConfig || too_deep(key + value)) return refuse("nested too deeply");
    try {
      typed_.push_back(toml::parse(key + (is_bare && !is_quoted ? to_toml(value) : value)));
    } catch (const toml::parse_error& error) {
      // A word for a number; the type check reports it.
      const auto word = is_quoted || has_parts ? std::nullopt : parse_word(key + to_toml(value));
      if (!word) return refuse(say("cannot be read: ", shown(error.description(), 200)));
      typed_.push_back(*word);
    }
    if (typed_.back().size() != 1) return refuse("is more than one value");
    return &typed_.back();
  }

  static std::optional<toml::table> parse_word(const std::string& toml) {
    try {
      return toml::parse(toml);
    } catch (const toml::parse_error&) {
      return std::nullopt;  // not UTF-8
    }
  }

  // The last valid value of a text key, or "".
  std::string last_choice(const std::string& key, const std::vector<std::string>& allowed) const {
    std::string choice;
    for (const Item& item : items_) {
      const auto* text = item.option->key == key ? item.node->as_string() : nullptr;
      if (text == nullptr) continue;
      const bool is_known = std::find(allowed.begin(), allowed.end(), text->get()) != allowed.end();
      choice = is_known ? text->get() : "";
    }
    return choice;
  }

  // Flavor and family determine the defaults of all other model keys.
  void choose_model() {
    const std::string flavor = last_choice("model.flavor", flavor_names());
    const std::string family = last_choice("model.model_type", model_types());
    if (const auto preset = find_flavor(flavor)) {
      loaded_.config.model = *preset;
    } else {
      loaded_.config.model =
          find_family(family.empty() ? ModelConfig().model_type : family).defaults;
    }
    const auto kind = flavor.empty() ? Origin::Kind::kFamily : Origin::Kind::kFlavor;
    for (const Option& option : options()) {
      if (option.section() == "model") loaded_.origins[option.key] = {kind, 0, 0};
    }
    loaded_.origins.erase("model.flavor");
    if (flavor.empty()) loaded_.origins.erase("model.model_type");
  }

  void apply(const Item& item) {
    std::vector<ValueFinding> findings;
    assign(*item.option, *item.node, text_.folder, loaded_.config, findings);
    for (const ValueFinding& finding : findings) {
      const bool is_typed = item.origin.kind == Origin::Kind::kCommandLine;
      complaints_.add({is_typed ? kTyped : in_file(finding.at),
                       shown(item.option->key + finding.part, 120), finding.value, finding.what});
    }
    if (!findings.empty()) complaints_.refuse(item.option->key);
    loaded_.origins[item.option->key] = item.origin;
  }

  const ConfigText& text_;
  std::span<const Override> overrides_;
  const Purpose purpose_;
  toml::table file_;
  std::deque<toml::table> typed_;  // items point into it
  toml::table* rope_ = nullptr;    // overrides of parts of model.rope_scaling
  std::vector<Item> items_;        // of the file, then of the command line
  LoadedConfig loaded_;
  Complaints complaints_;
};

}  // namespace

LoadedConfig read_config(const ConfigText& text, std::span<const Override> overrides,
                         Purpose purpose) {
  return Reader(text, overrides, purpose).read();
}

LoadedConfig load_config(const std::filesystem::path& file, std::span<const Override> overrides,
                         Purpose purpose) {
  ConfigText text{file.native(), "", std::filesystem::absolute(file).parent_path()};
  try {
    text.toml = read_text(file, kLongestConfig);
  } catch (const Error& error) {
    throw ConfigError(say("cannot read the config: ", error.what()));
  }
  return read_config(text, overrides, purpose);
}

std::optional<std::vector<DataStage>> parse_stages(const std::string& text) {
  try {
    const toml::table parsed = toml::parse("stages = " + text);
    RunConfig config;
    std::vector<ValueFinding> findings;
    assign(*find_option("data.stages"), *parsed.get("stages"), "/", config, findings);
    if (findings.empty()) return config.data.stages;
  } catch (const toml::parse_error&) {
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace trireme
