#include "trainer/commands/config_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "model/base/error.h"
#include "trainer/config/difference.h"
#include "trainer/config/for_ranks.h"
#include "trainer/config/reader.h"

namespace trireme {
namespace {

// Strongest first.
constexpr std::array kEffects{Effect::kData, Effect::kNumerics, Effect::kPerformance,
                              Effect::kLayout, Effect::kBookkeeping};

std::filesystem::path config_in(const std::string& name) {
  const std::filesystem::path path(name);
  if (!std::filesystem::is_directory(path)) return path;
  if (!std::filesystem::exists(path / "config.toml")) {
    throw ConfigError(say(name, " is no run folder: it has no config.toml"));
  }
  return path / "config.toml";
}

LoadedConfig effective(const std::string& name) {
  return load_config(config_in(name), {}, Purpose::kPlanning);
}

bool has_open_layout(const LoadedConfig& loaded) {
  return loaded.config.parallelism.data_shard == 0 || loaded.config.parallelism.data_replicate == 0;
}

// Data-parallel degrees that are left open are those of as many ranks as the other config has.
RunConfig filled(const LoadedConfig& loaded, const LoadedConfig& other) {
  if (!has_open_layout(loaded) || has_open_layout(other)) return loaded.config;
  try {
    return for_ranks(loaded, world_size(other.config.parallelism)).config;
  } catch (const ConfigError&) {  // it does not fit so many ranks
    return loaded.config;
  }
}

std::string value_or_note(const std::string& value) {
  return value.empty() ? "(does not apply)" : value;
}

std::string text_of(const std::vector<Change>& changes) {
  if (changes.empty()) return "The configs have the same values.\n";
  std::size_t width = 0;
  for (const Change& change : changes) width = std::max(width, change.key.size());
  std::string text, counts;
  for (const Effect effect : kEffects) {
    int count = 0;
    for (const Change& change : changes) {
      if (change.effect != effect) continue;
      if (count++ == 0) text += effect_text(effect) + ":\n";
      text += fmt::format("  {:<{}}  {} -> {}\n", change.key, width, value_or_note(change.before),
                          value_or_note(change.after));
    }
    if (count > 0) {
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, effect_text(effect));
    }
  }
  return fmt::format("{}{} key{} differ{}: {}\n", text, changes.size(),
                     changes.size() == 1 ? "" : "s", changes.size() == 1 ? "s" : "", counts);
}

std::string json_of(const std::vector<Change>& changes, const ConfigDiff& of) {
  nlohmann::ordered_json json{
      {"before", of.before}, {"after", of.after}, {"changes", nlohmann::ordered_json::array()}};
  const auto value = [](const std::string& toml) {
    return toml.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(toml);
  };
  for (const Change& change : changes) {
    json["changes"].push_back({{"key", change.key},
                               {"before", value(change.before)},
                               {"after", value(change.after)},
                               {"effect", effect_text(change.effect)}});
  }
  return json.dump(2) + "\n";
}

}  // namespace

CLI::App* add_config_diff(CLI::App& config, ConfigDiff& to) {
  CLI::App* const diff = config.add_subcommand(
      "diff",
      "Compare the effective values of two configs, with the effect of each difference on a run "
      "that resumes");
  const char* const kind = "Config file (TOML) or run folder";
  diff->add_option("BEFORE", to.before, kind)->required();
  diff->add_option("AFTER", to.after, kind)->required();
  diff->add_flag("--json", to.json, "Print JSON; values are TOML, null where a key does not apply");
  return diff;
}

std::string config_diff(const ConfigDiff& of) {
  const LoadedConfig before = effective(of.before), after = effective(of.after);
  const std::vector<Change> changes = difference(filled(before, after), filled(after, before));
  return of.json ? json_of(changes, of) : text_of(changes);
}

}  // namespace trireme
