#include "trainer/convert/trainers/translation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "model/base/error.h"
#include "trainer/config/missing_features.h"
#include "trainer/config/option.h"
#include "trainer/config/value_text.h"
#include "trainer/convert/trainers/harmless_keys.h"

namespace trireme {
namespace {

std::optional<double> number_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(number)) return std::nullopt;
  return number;
}

// Converts text to TOML of the option's type; nullopt if it is not a valid value.
struct AsToml {
  const Option& option;
  const std::string& text;
  using Toml = std::optional<std::string>;

  Toml operator()(const bool*) const {
    std::string word = text;
    for (char& c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    if (word.empty() || word == "true" || word == "1") return "true";
    return word == "false" || word == "0" ? Toml("false") : std::nullopt;
  }
  Toml operator()(const std::int64_t*) const {
    constexpr double kMost = 9e15;
    const auto number = number_of(text);
    if (!number || std::trunc(*number) != *number || std::abs(*number) > kMost) return std::nullopt;
    return fits(*number) ? Toml(fmt::format("{:.0f}", *number)) : std::nullopt;
  }
  Toml operator()(const double*) const {
    const auto number = number_of(text);
    return number && fits(*number) ? Toml(to_toml(*number)) : std::nullopt;
  }
  Toml operator()(const std::string*) const { return word(); }
  Toml operator()(const std::filesystem::path*) const { return word(); }
  template <class Other>
  Toml operator()(const Other*) const {
    return std::is_enum_v<Other> ? word() : std::nullopt;
  }

  bool fits(double number) const {
    const Range& range = option.range;
    return number >= range.least && number <= range.most &&
           !(range.above && number == range.least) && !(range.below && number == range.most);
  }
  Toml word() const {
    const auto& allowed = option.allowed;
    const bool is_allowed = allowed.empty() || option.or_path ||
                            std::find(allowed.begin(), allowed.end(), text) != allowed.end();
    return is_allowed && !text.empty() ? Toml(to_toml(std::string_view(text))) : std::nullopt;
  }
};

std::string one_line(std::string text) {
  for (char& c : text) c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return text;
}

std::string text_of(const ForeignConfig::Entry& entry, const std::string& why) {
  return one_line(fmt::format("{}{}{}{}", entry.key, entry.values.empty() ? "" : " = ",
                              fmt::join(entry.values, " "), why.empty() ? "" : " (" + why + ")"));
}

}  // namespace

Translation::Translation(const ForeignConfig& from, const std::set<std::string>& leave_out)
    : leave_out_(leave_out), trainer_(from.kind) {
  switch (from.kind) {
    case ForeignConfig::Kind::kTorchtitan:
      kind_ = "torchtitan";
      torchtitan(from);
      break;
    case ForeignConfig::Kind::kMegatron:
      kind_ = "Megatron-LM";
      megatron(from);
      break;
    case ForeignConfig::Kind::kNanotron:
      kind_ = "nanotron";
      nanotron(from);
      break;
  }
  for (const std::string& key : leave_out) {
    if (used_.contains(key) || from.find(key) != nullptr) continue;
    throw ConfigError(say("--leave-out ", key, ": the source config has no such key"));
  }
  for (const ForeignConfig::Entry& entry : from.entries) {
    if (!used_[entry.key]) leave(*from.find(entry.key), "");  // the last occurrence is effective
  }
}

bool Translation::set(const std::string& ours, const std::string& value,
                      const std::string& source) {
  const Option* option = find_option(ours);
  require(option != nullptr, "unknown config key ", ours);
  RunConfig config;
  const auto toml = std::visit(AsToml{*option, value}, option->slot(config));
  if (toml) entries_[option->key] = {*toml, source};
  return toml.has_value();
}

std::string Translation::exact(double value) {
  return fmt::format("{}", value);
}

void Translation::leave(const ForeignConfig::Entry& entry, const std::string& why) {
  if (is_harmless(trainer_, entry)) return note(entry, why);
  use(entry.key);
  const std::string missing = missing_feature(entry.key);
  const std::string reason = !missing.empty() ? missing : !why.empty() ? why : "unknown key";
  if (leave_out_.contains(entry.key)) return note(entry, "ignored by --leave-out: " + reason);
  refused_.push_back(text_of(entry, reason));
}

void Translation::refuse(const std::string& key, const std::string& what) {
  use(key);
  (leave_out_.contains(key) ? left_ : refused_).push_back(key + what);
}

void Translation::note(const ForeignConfig::Entry& entry, const std::string& why) {
  use(entry.key);
  left_.push_back(text_of(entry, why));
}

void Translation::apply(const ForeignConfig& from, const std::vector<ForeignKey>& keys) {
  for (const ForeignKey& key : keys) {
    const ForeignConfig::Entry* entry = from.find(key.theirs);
    if (entry == nullptr) {
      if (key.theirs_default.empty()) continue;
      require(set(key.ours, key.theirs_default, "default of " + kind_), "invalid default of ",
              key.ours);
      continue;
    }
    if (used_[entry->key]) continue;
    use(entry->key);
    std::string value = entry->values.empty() ? "" : entry->values.front();
    if (!key.words.empty()) {
      const auto word = key.words.find(value);
      if (word == key.words.end()) {
        leave(*entry, say(key.ours, " does not support this value"));
        continue;
      }
      value = word->second;
    }
    if (entry->values.size() > 1 || !set(key.ours, value, entry->key)) {
      leave(*entry, say("invalid value of ", key.ours));
    }
  }
}

std::string Translation::toml() const {
  std::string text =
      fmt::format("# Converted from a {} config; check it with: trireme config show FILE\n", kind_);
  std::string section;
  if (!entries_.contains("data.train")) {
    text +=
        "# Still to be set: data.train = [{ path = \"PREFIX\" }], written by 'trireme tokenize'\n";
  }
  if (entries_.contains("validation.freq") && !entries_.contains("data.split")) {
    text += "# Still to be set: data.validation, in the same format, or data.split\n";
  }
  for (const Option& option : options()) {
    const auto entry = entries_.find(option.key);
    if (entry == entries_.end()) continue;
    if (option.section() != section) {
      section = option.section();
      text += fmt::format("\n[{}]\n", section);
    }
    text += fmt::format("{:<40}  # {}\n", fmt::format("{} = {}", option.name(), entry->second.toml),
                        one_line(entry->second.source));
  }
  if (left_.empty()) return text;
  text += "\n# Without a counterpart:\n";
  for (const std::string& one : left_) text += "#   " + one + "\n";
  return text;
}

}  // namespace trireme
