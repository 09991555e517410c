#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

// The config of another trainer, flat: its keys in their order, with their values as text.
struct ForeignConfig {
  enum class Kind { kTorchtitan, kMegatron, kNanotron } kind = Kind::kTorchtitan;
  struct Entry {
    std::string key;                  // "training.seq_len", "seq-length"
    std::vector<std::string> values;  // none of a switch, several of a list
  };
  std::vector<Entry> entries;

  const Entry* find(std::string_view key) const;  // null: not there
  std::string text(std::string_view key) const;   // its first value; empty: not there, or a switch
};

// A TOML file of torchtitan's, by section and key.
ForeignConfig read_torchtitan(std::string_view text);

// Megatron-LM's arguments: the options of a command line, or of the shell script around it, whose
// plain variables are put in. Keys are without dashes in front, and have no underscores.
ForeignConfig read_megatron(std::string_view text);

// A YAML file of nanotron's, by path; the place in a list is part of it.
ForeignConfig read_nanotron(const std::string& text);

// By the file's name: .toml, .yaml or .yml; a .py is refused; anything else is Megatron-LM's. All
// throw ConfigError that says why where the text cannot be read.
ForeignConfig read_foreign_config(const std::string& name, const std::string& text);

}  // namespace trireme
