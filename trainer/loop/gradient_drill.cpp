#include "trainer/loop/gradient_drill.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "model/base/error.h"
#include "model/device/copy.h"

namespace trireme {
namespace {

template <class Number>
std::optional<Number> number(const std::string& text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, why] = std::from_chars(text.data(), end, value);
  if (why != std::errc() || stop != end) return std::nullopt;
  return value;
}

bool declares(const ParamStore& store, const std::string& name) {
  for (const Weight& weight : store.weights()) {
    for (const Param& param : weight.parts) {
      if (param.spec.name == name) return true;
    }
  }
  return false;
}

// The first run of its reduced gradient that this rank owns; empty when it owns none.
Tensor owned_gradient(const ParamStore& store, const std::string& name) {
  for (const ParamStore::Owned& owned : store.owned()) {
    if (owned.param->spec.name == name && owned.count > 0) return owned.grad;
  }
  return {};
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

std::optional<GradientDrill> GradientDrill::from(const Variables& variables) {
  const auto text = variables(kVariable);
  if (!text) return std::nullopt;
  return GradientDrill(*text);
}

GradientDrill::GradientDrill(std::string text) : text_(std::move(text)) {
  std::map<std::string, std::string> values;
  std::istringstream words(text_);
  bool sound = true;
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    sound &= equals != std::string::npos &&
             values.emplace(word.substr(0, equals), word.substr(equals + 1)).second;
  }
  const auto step = number<std::int64_t>(values["step"]);
  const auto rank = number<std::int64_t>(values["rank"]);
  const auto value = number<double>(values["value"]);
  parameter_ = values["parameter"];
  sound &= step && *step >= 1 && rank && *rank >= 0 && value && !parameter_.empty();
  if (!sound || values.size() != 4) {
    throw ConfigError(say(kVariable, "=\"", text_,
                          "\": give it like \"step=5 rank=1 parameter=layers.0.mlp.up.weight "
                          "value=nan\"; the value may be any number"));
  }
  step_ = *step;
  rank_ = *rank;
  value_ = *value;
}

void GradientDrill::check(const ParamStore& whole, const ParamStore& held, int rank,
                          int ranks) const {
  if (rank_ >= ranks) {
    throw ConfigError(say(kVariable, ": rank=", rank_, ": there are ", ranks, ", counted from 0"));
  }
  if (!declares(whole, parameter_)) {
    throw ConfigError(say(kVariable, ": parameter=", parameter_, ": the model has no such; it has ",
                          names_of(whole)));
  }
  if (rank != rank_) return;
  if (owned_gradient(held, parameter_)) return;
  throw ConfigError(say(kVariable, ": rank ", rank_, " holds nothing of ", parameter_,
                        "; it holds ", names_owned_in(held)));
}

void GradientDrill::strike(Stream& stream, const ParamStore& held, int rank, std::int64_t step) {
  if (done_ || step != step_) return;
  done_ = true;
  if (rank != rank_) return;
  const Tensor grad = owned_gradient(held, parameter_);
  const auto write = [&](const auto value) {
    copy_bytes(stream, grad.data, reinterpret_cast<const std::byte*>(&value), sizeof value);
    stream.synchronize();
  };
  if (grad.dtype == DType::kF64) {
    write(value_);
  } else {
    write(static_cast<float>(value_));
  }
}

}  // namespace trireme
