#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Where the comment of a TOML line starts; the line's length when there is none.
std::size_t comment_start(std::string_view line);

// A key of a run folder's config.toml, which has each on a line of its own.
struct ConfigValue {
  std::string key;     // "optimizer.lr"
  std::string value;   // as TOML
  std::string origin;  // "default", "run.toml:12"; may be empty

  bool is_chosen() const;  // by a person: neither a default, a flavor's nor derived
};
std::vector<ConfigValue> config_values(std::string_view text);

// A key whose values differ among configs; a config without the key has an empty one.
struct ConfigDifference {
  std::string key;
  std::vector<std::string> values;
};
// The keys of folders, which always differ, are left out.
std::vector<ConfigDifference> config_differences(const std::vector<std::string_view>& texts);

}  // namespace trireme
