#include "trainer/loop/drill_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "model/base/error.h"
#include "trainer/loop/drill_words.h"

namespace trireme {
namespace {

bool declares(const ParamStore& store, const std::string& name) {
  for (const Weight& weight : store.weights()) {
    for (const Param& param : weight.parts) {
      if (param.spec.name == name) return true;
    }
  }
  return false;
}

std::string listed(const std::set<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string names_of(const ParamStore& store) {
  std::set<std::string> names;
  for (const Weight& weight : store.weights()) {
    for (const Param& param : weight.parts) names.insert(param.spec.name);
  }
  return listed(names);
}

std::string names_owned_in(const ParamStore& store) {
  std::set<std::string> names;
  for (const ParamStore::Owned& owned : store.owned()) names.insert(owned.param->spec.name);
  return listed(names);
}

}  // namespace

std::optional<DrillTarget> DrillTarget::parse(const char* variable, const std::string& text,
                                              const char* own_word) {
  auto words = drill_words(text);
  if (!words) return std::nullopt;
  std::map<std::string, std::string>& values = *words;
  const auto step = drill_number<std::int64_t>(values["step"]);
  const auto rank = drill_number<std::int64_t>(values["rank"]);
  DrillTarget target{variable, text, 0, 0, values["parameter"], values[own_word], values["once"]};
  const bool sound = step && *step >= 1 && rank && *rank >= 0 && !target.parameter.empty();
  if (!sound || values.size() != 5) return std::nullopt;
  target.step = *step;
  target.rank = *rank;
  return target;
}

std::string DrillTarget::check(const ParamStore& whole, const ParamStore& held, int of_rank,
                               int ranks) const {
  if (!declares(whole, parameter)) {
    throw ConfigError(say(variable, ": parameter=", parameter, ": the model has no such; it has ",
                          names_of(whole)));
  }
  if (rank >= ranks) {
    return say(variable, ": nothing comes of it: there is no rank ", rank, " among ", ranks,
               ", counted from 0");
  }
  if (of_rank != rank || find(held)) return "";
  throw ConfigError(say(variable, ": rank ", rank, " holds nothing of ", parameter, "; it holds ",
                        names_owned_in(held)));
}

const ParamStore::Owned* DrillTarget::find(const ParamStore& held) const {
  for (const ParamStore::Owned& owned : held.owned()) {
    if (owned.param->spec.name == parameter && owned.count > 0) return &owned;
  }
  return nullptr;
}

}  // namespace trireme
