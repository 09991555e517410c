#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// Config of another trainer as a flat list of keys with their values as text, in file order.
struct ForeignConfig {
  enum class Kind { kTorchtitan, kMegatron, kNanotron } kind = Kind::kTorchtitan;
  struct Entry {
    std::string key;                  // "training.seq_len", "seq-length"
    std::vector<std::string> values;  // empty for a switch, several for a list
  };
  std::vector<Entry> entries;

  const Entry* find(std::string_view key) const;  // null if missing
  std::string text(std::string_view key) const;   // first value; empty if missing or a switch
};

// Parses a torchtitan TOML file; keys are section.key.
ForeignConfig read_torchtitan(std::string_view text);

// Parses Megatron-LM arguments from a command line or a shell script, whose plain variables are
// expanded. Keys have no leading dashes, and dashes instead of underscores.
ForeignConfig read_megatron(std::string_view text);

// Parses a nanotron YAML file; keys are paths with list indices.
ForeignConfig read_nanotron(const std::string& text);

// Selects the format by file name: .toml, .yaml or .yml; other names are Megatron-LM arguments; .py
// is refused. All four throw ConfigError if the text cannot be parsed.
ForeignConfig read_foreign_config(const std::string& name, const std::string& text);

}  // namespace trireme
