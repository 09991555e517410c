#include "tests/trainer/tools/plan/fitting.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trireme::published {
namespace {

struct Knob {
  double* value;
  double least, most;
  double pull = 0.3;  // towards what was listed
};

// The kernels' authors publish what attention reaches.
constexpr double kMostPublished = 3;

std::vector<Knob> knobs_of(DeviceProfile& profile, const std::vector<const Run*>& runs) {
  std::vector<Knob> knobs{{&profile.streamed, 0.4, 0.95},
                          {&profile.launch, 1e-6, 3e-5},
                          {&profile.network.within.reached, 0.3, 0.95},
                          {&profile.network.between.reached, 0.25, 0.95}};
  for (int kind = 0; kind < kNumberFormats; ++kind) {
    const bool used = std::any_of(runs.begin(), runs.end(), [&](const Run* run) {
      return static_cast<int>(run->work.numbers()) == kind;
    });
    if (!used) continue;
    ProductRate& rate = profile.rates[static_cast<std::size_t>(kind)];
    knobs.push_back({&rate.product, 0.3, 0.98});
    knobs.push_back({&rate.half_depth, 1, 1500, 0.03});
    if (kind == static_cast<int>(NumberFormat::kFloat8)) continue;  // attention is in halves
    knobs.push_back({&rate.flash, 0.2, 0.85, kMostPublished});
  }
  return knobs;
}

double badness(const std::vector<const Run*>& runs, const DeviceProfile& profile,
               const std::vector<Knob>& knobs, const std::vector<double>& listed) {
  double sum = 0;
  for (const Run* run : runs) {
    const double off = std::log(1 + error(*run, profile));
    sum += std::sqrt(off * off + 1e-3);
  }
  for (std::size_t i = 0; i < knobs.size(); ++i) {
    const double away = std::log(*knobs[i].value / listed[i]);
    sum += knobs[i].pull * away * away;
  }
  return sum / static_cast<double>(runs.size());
}

void fit_one(const std::vector<const Run*>& runs, DeviceProfile& profile) {
  const std::vector<Knob> knobs = knobs_of(profile, runs);
  std::vector<double> listed;
  for (const Knob& knob : knobs) listed.push_back(*knob.value);
  double best = badness(runs, profile, knobs, listed);
  for (double step = 0.2; step > 0.01;) {
    const double before = best;
    for (const Knob& knob : knobs) {
      for (const double factor : {1 + step, 1 / (1 + step)}) {
        const double was = *knob.value;
        *knob.value = std::clamp(was * factor, knob.least, knob.most);
        const double now = badness(runs, profile, knobs, listed);
        if (now < best) {
          best = now;
          break;
        }
        *knob.value = was;
      }
    }
    if (best > before - 1e-4) step /= 2;
  }
}

}  // namespace

Profiles listed_by_name() {
  Profiles profiles;
  for (const DeviceProfile& profile : listed_profiles()) {
    profiles[profile.name] = profile_of(profile.name);
  }
  return profiles;
}

void fit(const std::vector<Run>& runs, Profiles& profiles) {
  for (auto& [name, profile] : profiles) {
    std::vector<const Run*> own;
    for (const Run& run : runs) {
      if (run.gpu == name && run.fitted) own.push_back(&run);
    }
    if (own.size() > 1) fit_one(own, profile);
  }
}

std::string text_of(const DeviceProfile& profile) {
  std::string text =
      fmt::format("{}: streamed {:.3f}, launch {:.2e}, within {:.3f}, between {:.3f}", profile.name,
                  profile.streamed, profile.launch, profile.network.within.reached,
                  profile.network.between.reached);
  for (int kind = 0; kind < kNumberFormats; ++kind) {
    const ProductRate& rate = profile.rates[static_cast<std::size_t>(kind)];
    if (rate.peak <= 0) continue;
    text += fmt::format("; {} product {:.3f}, half_depth {:.0f}, flash {:.3f}",
                        name_of(static_cast<NumberFormat>(kind)), rate.product, rate.half_depth,
                        rate.flash);
  }
  return text;
}

}  // namespace trireme::published
