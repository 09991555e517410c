#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Offset of the comment of a TOML line; the length of the line if it has none.
std::size_t comment_start(std::string_view line);

// A key of a run folder's config.toml, which has one key per line.
struct ConfigValue {
  std::string key;     // "optimizer.lr"
  std::string value;   // as TOML
  std::string origin;  // "default", "run.toml:12"; may be empty

  bool is_chosen() const;  // by the user: not a default, a value of the flavor or derived
};
std::vector<ConfigValue> config_values(std::string_view text);

// A key with different values in some configs; empty for a config without the key.
struct ConfigDifference {
  std::string key;
  std::vector<std::string> values;
};
// Excludes job.dump_folder and checkpoint.folder, which always differ.
std::vector<ConfigDifference> config_differences(const std::vector<std::string_view>& texts);

}  // namespace trireme
