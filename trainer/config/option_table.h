#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/config/option.h"

namespace trireme {

// Tables of options(), one per section. A new key needs an entry here and a member in run_config.h.
using Options = std::vector<Option>;

void add_job(Options& to);
void add_model(Options& to);
void add_data(Options& to);
void add_training(Options& to);
void add_guard(Options& to);  // keys of [training] about wrong losses and gradients
void add_optimizer(Options& to);
void add_lr_scheduler(Options& to);
void add_parallelism(Options& to);
void add_activation_checkpoint(Options& to);
void add_checkpoint(Options& to);
void add_elastic(Options& to);
void add_validation(Options& to);
void add_metrics(Options& to);

// Slot of an entry.
#define TRIREME_MEMBER(member) [](RunConfig& c) -> Slot { return &c.member; }

// Names of a registry's entries, or of those that `counts`, for Option::allowed and helps.
template <class Entries, class Counts>
std::vector<std::string> names_of(const Entries& entries, const Counts& counts) {
  std::vector<std::string> names;
  for (const auto& entry : entries) {
    if (std::invoke(counts, entry)) names.emplace_back(entry.name);
  }
  return names;
}
template <class Entries>
std::vector<std::string> names_of(const Entries& entries) {
  return names_of(entries, [](const auto&) { return true; });
}

// "Lion: 0.99; LAMB: 0.999; else 0.95": a key's defaults in named variants of a config, if they
// differ from the usual one; empty if none does.
std::string defaults_text(const Option& option,
                          const std::vector<std::pair<std::string, RunConfig>>& variants);

inline constexpr double kMaxInteger = 9223372036854774784.0;  // the largest double an int64 holds

inline Range at_least(double least) {
  return {.least = least, .most = kMaxInteger};
}
inline Range between(double least, double most) {
  return {.least = least, .most = most};
}
inline Range from_up_to(double least, double most) {
  return {least, most, false, true};
}
inline Range above(double least) {
  return {.least = least, .above = true};
}

}  // namespace trireme
