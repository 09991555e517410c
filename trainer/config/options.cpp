#include <algorithm>

#include "model/base/error.h"
#include "trainer/config/option_table.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

Options all_options() {
  Options all;
  add_job(all);
  add_model(all);
  add_data(all);
  add_training(all);
  add_guard(all);
  add_optimizer(all);
  add_lr_scheduler(all);
  add_parallelism(all);
  add_activation_checkpoint(all);
  add_checkpoint(all);
  add_elastic(all);
  add_validation(all);
  add_metrics(all);
  return all;
}

}  // namespace

std::string defaults_text(const Option& option,
                          const std::vector<std::pair<std::string, RunConfig>>& variants) {
  const auto text_in = [&](RunConfig config) {
    std::string text = to_toml(option.slot(config));
    if (const auto at = text.find("e-0"); at != std::string::npos) text.erase(at + 2, 1);  // 1e-6
    return text;
  };
  const std::string usual = text_in({});
  std::vector<std::pair<std::string, std::string>> others;  // names, default
  for (const auto& [name, config] : variants) {
    const std::string own = text_in(config);
    if (own == usual) continue;
    const auto same = std::find_if(others.begin(), others.end(),
                                   [&](const auto& other) { return other.second == own; });
    if (same == others.end()) {
      others.emplace_back(name, own);
    } else {
      same->first += ", " + name;
    }
  }
  std::string text;
  for (const auto& [names, own] : others) text += say(names, ": ", own, "; ");
  return text.empty() ? text : text + "else " + usual;
}

bool Option::is_switch() const {
  RunConfig config;
  return std::holds_alternative<bool*>(slot(config));
}

const std::vector<Option>& options() {
  static const Options kAll = all_options();
  return kAll;
}

const Option* find_option(std::string_view key) {
  for (const Option& option : options()) {
    if (option.key == key) return &option;
    for (const std::string& alias : option.aliases) {
      if (option.section() + "." + alias == key) return &option;
    }
  }
  return nullptr;
}

std::vector<std::string> sections() {
  std::vector<std::string> names;
  for (const Option& option : options()) {
    if (names.empty() || names.back() != option.section()) names.push_back(option.section());
  }
  return names;
}

}  // namespace trireme
