#include "trainer/loop/step_guard.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace trireme {
namespace {

using nlohmann::json;

constexpr double kMinDeviation = 0.01;  // of the mean

StepGuard::Action action_of(const std::string& policy) {
  if (policy == "skip") return StepGuard::Action::kSkip;
  return policy == "rollback" ? StepGuard::Action::kRollBack : StepGuard::Action::kStop;
}

}  // namespace

void SpikeWindow::add(double value) {
  values_.push_back(value);
  if (values_.size() > size_) values_.pop_front();
}

std::optional<SpikeWindow::Moments> SpikeWindow::moments() const {
  if (values_.size() < size_) return std::nullopt;
  const auto count = static_cast<double>(values_.size());
  const double mean = std::accumulate(values_.begin(), values_.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values_) squares += (value - mean) * (value - mean);
  const double deviation = std::sqrt(squares / (count - 1));
  return Moments{mean, std::max(deviation, kMinDeviation * std::abs(mean))};
}

double SpikeWindow::limit(double zscore) const {
  const auto known = moments();
  if (!known) return std::numeric_limits<double>::infinity();
  return known->mean + zscore * known->deviation;
}

std::optional<double> SpikeWindow::zscore(double value) const {
  const auto known = moments();
  if (!known) return std::nullopt;
  return (value - known->mean) / known->deviation;
}

StepGuard::StepGuard(const TrainingConfig& config)
    : config_(config),
      losses_(static_cast<std::size_t>(config.spike_window)),
      norms_(static_cast<std::size_t>(config.spike_window)),
      loads_(static_cast<std::size_t>(config.spike_window)) {}

double StepGuard::norm_limit(double loss, std::optional<double> expert_load) const {
  constexpr double kApplyNothing = -1;
  if (!std::isfinite(loss)) return kApplyNothing;
  if (config_.on_spike == "none") return std::numeric_limits<double>::infinity();
  const bool spikes = loss > losses_.limit(config_.spike_zscore) ||
                      expert_load.value_or(0) > loads_.limit(config_.spike_zscore);
  return spikes ? kApplyNothing : norms_.limit(config_.spike_zscore);
}

StepGuard::Decision StepGuard::decide(std::int64_t step, double loss, double norm,
                                      std::optional<double> expert_load) {
  const bool spike = std::isfinite(loss) && std::isfinite(norm);
  const Action wanted = action_of(spike ? config_.on_spike : config_.on_nonfinite);
  Decision decision{.action = wanted,
                    .spike = spike,
                    .exhausted = wanted != Action::kStop && in_a_row_ >= config_.max_skips,
                    .loss_zscore = losses_.zscore(loss),
                    .norm_zscore = norms_.zscore(norm),
                    .load_zscore = expert_load ? loads_.zscore(*expert_load) : std::nullopt};
  if (decision.exhausted) decision.action = Action::kStop;
  if (decision.action == Action::kStop) return decision;
  ++(decision.action == Action::kSkip ? skips_ : rollbacks_);
  ++in_a_row_;
  past_ = std::max(past_, step);
  return decision;
}

void StepGuard::accept(std::int64_t step, double loss, double norm,
                       std::optional<double> expert_load) {
  if (step >= past_) in_a_row_ = 0;
  if (config_.on_spike == "none") return;
  losses_.add(loss);
  norms_.add(norm);
  if (expert_load) loads_.add(*expert_load);
}

bool StepGuard::rolls_back() const {
  return config_.on_nonfinite == "rollback" || config_.on_spike == "rollback";
}

void StepGuard::write(json& scalars) const {
  if (skips_ + rollbacks_ > 0) {
    scalars["left_out"] = {{"skips", skips_},
                           {"rollbacks", rollbacks_},
                           {"in_a_row", in_a_row_},
                           {"past_step", past_}};
  }
  if (config_.on_spike != "none") {
    json& good = scalars["good_steps"];
    good = {{"loss", losses_.values()}, {"grad_norm", norms_.values()}};
    if (!loads_.values().empty()) good["expert_load"] = loads_.values();
  }
}

void StepGuard::read(const json& scalars, bool counts) {
  if (counts && scalars.contains("left_out")) {
    const json& kept = scalars["left_out"];
    skips_ = kept.at("skips").get<std::int64_t>();
    rollbacks_ = kept.at("rollbacks").get<std::int64_t>();
    in_a_row_ = kept.at("in_a_row").get<std::int64_t>();
    past_ = kept.at("past_step").get<std::int64_t>();
  }
  const auto size = static_cast<std::size_t>(config_.spike_window);
  losses_ = norms_ = loads_ = SpikeWindow(size);
  if (config_.on_spike == "none" || !scalars.contains("good_steps")) return;
  const json& kept = scalars["good_steps"];
  for (const double loss : kept.at("loss").get<std::vector<double>>()) losses_.add(loss);
  for (const double norm : kept.at("grad_norm").get<std::vector<double>>()) norms_.add(norm);
  if (!kept.contains("expert_load")) return;
  for (const double load : kept["expert_load"].get<std::vector<double>>()) loads_.add(load);
}

}  // namespace trireme
