#include "trainer/config/option_table.h"

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
