#include "trainer/loop/inject/parameter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <set>

#include "model/base/error.h"
#include "model/base/log.h"
#include "model/device/copy.h"
#include "trainer/loop/inject/words.h"

namespace trireme::inject {
namespace {

constexpr int kMasterBits = 32;

std::set<std::string> declared_names(const ParamStore& store) {
  std::set<std::string> names;
  for (const Weight& weight : store.weights()) {
    for (const Param& param : weight.parts) names.insert(param.spec.name);
  }
  return names;
}

std::set<std::string> owned_names(const ParamStore& store) {
  std::set<std::string> names;
  for (const ParamShard& shard : store.shards()) names.insert(shard.param->spec.name);
  return names;
}

template <class T>
void write_value(Stream& stream, std::byte* to, T value) {
  copy_bytes(stream, to, reinterpret_cast<const std::byte*>(&value), sizeof value);
  stream.synchronize();
}

// Whether to inject now, on this rank. Every rank is done with the step afterwards.
bool is_due(const ParameterTarget& target, bool& done, int rank, std::int64_t step) {
  if (done || step != target.step) return false;
  done = true;
  return rank == target.rank && claim_once(target.variable, target.once);
}

const ParamShard& shard_of(const ParameterTarget& target, const ParamStore& held) {
  const ParamShard* const shard = target.find(held);
  require(shard != nullptr, target.variable, ": the rank owns nothing of the parameter");
  return *shard;
}

}  // namespace

std::optional<ParameterTarget> ParameterTarget::parse(const char* variable, const std::string& text,
                                                      const char* key) {
  auto words = parse_words(text);
  if (!words) return std::nullopt;
  std::map<std::string, std::string>& values = *words;
  const auto step = parse_number<std::int64_t>(values["step"]);
  const auto rank = parse_number<std::int64_t>(values["rank"]);
  ParameterTarget target{variable, text, 0, 0, values["parameter"], values[key], values["once"]};
  const bool valid = step && *step >= 1 && rank && *rank >= 0 && !target.parameter.empty();
  if (!valid || values.size() != 5) return std::nullopt;
  target.step = *step;
  target.rank = *rank;
  return target;
}

std::string ParameterTarget::check(const ParamStore& whole, const ParamStore& held, int own_rank,
                                   int ranks) const {
  const std::set<std::string> names = declared_names(whole);
  if (names.count(parameter) == 0) {
    throw ConfigError(fmt::format("{}: parameter={}: the model has no such parameter; it has {}",
                                  variable, parameter, fmt::join(names, ", ")));
  }
  if (rank >= ranks) {
    return say(variable, ": no effect: there is no rank ", rank, " among ", ranks,
               ", counted from 0");
  }
  if (own_rank != rank || find(held)) return "";
  throw ConfigError(fmt::format("{}: rank {} owns nothing of {}; it owns {}", variable, rank,
                                parameter, fmt::join(owned_names(held), ", ")));
}

const ParamShard* ParameterTarget::find(const ParamStore& held) const {
  for (const ParamShard& shard : held.shards()) {
    if (shard.param->spec.name == parameter && shard.count() > 0) return &shard;
  }
  return nullptr;
}

std::optional<GradientInjection> GradientInjection::from(const Variables& variables) {
  const auto text = variables(kVariable);
  if (!text) return std::nullopt;
  const auto target = ParameterTarget::parse(kVariable, *text, "value");
  const auto value = target ? parse_number<double>(target->value) : std::nullopt;
  if (!value) {
    throw ConfigError(say(kVariable, "=\"", *text,
                          "\": expected a value like \"step=5 rank=1 "
                          "parameter=layers.0.mlp.up.weight value=nan\"; the value may be any "
                          "number"));
  }
  return GradientInjection(*target, *value);
}

void GradientInjection::apply(Stream& stream, const ParamStore& held, int rank, std::int64_t step) {
  if (!is_due(target_, done_, rank, step)) return;
  const Tensor& grad = shard_of(target_, held).grad;
  if (grad.dtype == DType::kF64) {
    write_value(stream, grad.data, value_);
  } else {
    write_value(stream, grad.data, static_cast<float>(value_));
  }
}

std::optional<WeightInjection> WeightInjection::from(const Variables& variables) {
  const auto text = variables(kVariable);
  if (!text) return std::nullopt;
  const auto target = ParameterTarget::parse(kVariable, *text, "bit");
  const auto bit = target ? parse_number<int>(target->value) : std::nullopt;
  if (!bit || *bit < 0 || *bit >= kMasterBits) {
    throw ConfigError(say(kVariable, "=\"", *text,
                          "\": expected a value like \"step=5 rank=1 "
                          "parameter=layers.0.mlp.up.weight bit=20\"; bits range from 0 to ",
                          kMasterBits - 1));
  }
  return WeightInjection(*target, *bit);
}

void WeightInjection::apply(Stream& stream, const ParamStore& held, int rank, std::int64_t step) {
  if (!is_due(target_, done_, rank, step)) return;
  std::byte* const at = shard_of(target_, held).master.data + bit_ / 8;
  std::byte byte{};
  copy_bytes(stream, &byte, at, 1);
  stream.synchronize();
  write_value(stream, at, byte ^ (std::byte{1} << (bit_ % 8)));
}

ParameterInjections ParameterInjections::from(const Variables& variables) {
  return {GradientInjection::from(variables), WeightInjection::from(variables)};
}

std::vector<const ParameterTarget*> ParameterInjections::targets() const {
  std::vector<const ParameterTarget*> targets;
  if (gradient) targets.push_back(&gradient->target());
  if (weight) targets.push_back(&weight->target());
  return targets;
}

void ParameterInjections::check(const ParamStore& whole, const ParamStore& held,
                                const Team& team) const {
  for (const ParameterTarget* target : targets()) {
    std::string warning;
    team.together([&] { warning = target->check(whole, held, team.rank(), team.size()); });
    if (!warning.empty() && team.leads()) log_warning("{}", warning);
  }
}

}  // namespace trireme::inject
