#include "trainer/convert/trainers/foreign_config.h"

#include <toml++/toml.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "model/base/error.h"

namespace trireme {
namespace {

using Entries = std::vector<ForeignConfig::Entry>;

std::string joined(const std::string& path, const std::string& key) {
  return path.empty() ? key : path + "." + key;
}

std::string toml_text(const toml::node& node) {
  if (const auto text = node.value<std::string>()) return *text;
  if (const auto flag = node.value_exact<bool>()) return *flag ? "true" : "false";
  if (const auto whole = node.value_exact<std::int64_t>()) return std::to_string(*whole);
  if (const auto number = node.value<double>()) return say(*number);
  throw ConfigError(say("line ", node.source().begin.line, ": dates and times are not supported"));
}

void flatten(const toml::table& table, const std::string& path, Entries& entries) {
  for (const auto& [name, node] : table) {
    const std::string key = joined(path, std::string(name.str()));
    if (const toml::table* inner = node.as_table()) {
      flatten(*inner, key, entries);
    } else if (const toml::array* list = node.as_array()) {
      ForeignConfig::Entry entry{key, {}};
      for (const toml::node& one : *list) {
        entry.values.push_back(one.is_value() ? toml_text(one) : "{...}");
      }
      entries.push_back(std::move(entry));
    } else {
      entries.push_back({key, {toml_text(node)}});
    }
  }
}

void flatten(const YAML::Node& node, const std::string& path, Entries& entries, int depth) {
  constexpr int kDeepest = 32;
  constexpr std::size_t kMost = 10'000;  // bounds recursive aliases
  if (entries.size() > kMost) throw ConfigError(say("more than ", kMost, " keys"));
  if (depth > kDeepest)
    throw ConfigError(say("nested deeper than ", kDeepest, " levels at ", path));
  if (node.IsMap()) {
    for (const auto& one : node) {
      flatten(one.second, joined(path, one.first.as<std::string>()), entries, depth + 1);
    }
  } else if (node.IsSequence()) {
    const bool is_plain =
        std::all_of(node.begin(), node.end(), [](const YAML::Node& one) { return one.IsScalar(); });
    if (is_plain) {
      entries.push_back({path, node.as<std::vector<std::string>>()});
      return;
    }
    for (std::size_t i = 0; i < node.size(); ++i) {
      flatten(node[i], joined(path, std::to_string(i)), entries, depth + 1);
    }
  } else if (node.IsScalar()) {
    entries.push_back({path, {node.as<std::string>()}});
  }
}

}  // namespace

const ForeignConfig::Entry* ForeignConfig::find(std::string_view key) const {
  const auto found = std::find_if(entries.rbegin(), entries.rend(),
                                  [&](const Entry& one) { return one.key == key; });
  return found == entries.rend() ? nullptr : &*found;
}

std::string ForeignConfig::text(std::string_view key) const {
  const Entry* entry = find(key);
  return entry == nullptr || entry->values.empty() ? "" : entry->values.front();
}

ForeignConfig read_torchtitan(std::string_view text) {
  try {
    ForeignConfig config{.kind = ForeignConfig::Kind::kTorchtitan, .entries = {}};
    flatten(toml::parse(text), "", config.entries);
    return config;
  } catch (const toml::parse_error& error) {
    throw ConfigError(
        say("line ", error.source().begin.line, ": ", std::string(error.description())));
  }
}

ForeignConfig read_nanotron(const std::string& text) {
  try {
    ForeignConfig config{.kind = ForeignConfig::Kind::kNanotron, .entries = {}};
    const YAML::Node node = YAML::Load(text);
    if (!node.IsMap()) throw ConfigError("not a YAML mapping of sections and keys");
    flatten(node, "", config.entries, 0);
    return config;
  } catch (const YAML::Exception& error) {
    throw ConfigError(say("line ", error.mark.line + 1, ": ", error.msg));
  }
}

ForeignConfig read_foreign_config(const std::string& name, const std::string& text) {
  try {
    if (name.ends_with(".toml")) return read_torchtitan(text);
    if (name.ends_with(".yaml") || name.ends_with(".yml")) return read_nanotron(text);
    if (name.ends_with(".py")) {
      throw ConfigError(
          "a Python config (torchtitan's config_registry) is a program, which is not run here; "
          "write the values that its function sets as TOML and import that file: a section for "
          "each of its parts, as [training] with steps = 1000, [optimizer] with lr = 3e-4, and "
          "[model] with name = \"llama3\" and flavor = \"8B\"");
    }
    return read_megatron(text);
  } catch (const ConfigError& error) {
    throw ConfigError(say(name, ": ", error.what()));
  }
}

}  // namespace trireme
