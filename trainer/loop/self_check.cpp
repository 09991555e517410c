#include "trainer/loop/self_check.h"

#include <fmt/format.h>

#include <cmath>

namespace trireme {
namespace {

constexpr const char* kEvent = "self_check";

// Rank 0's expectation, on all ranks.
Expectation read_by_leader(const Team& team, const std::filesystem::path& run,
                           const TrainState& state) {
  return parse_expectation(team.led([&] { return text_of(expected_step(run, state)); }));
}

double distance(double a, double b) {
  return std::abs(a - b) / std::max(std::abs(a), std::abs(b));
}

struct Difference {
  const char* item;
  double is, was, tolerance;
};

// The first beyond its tolerance, or not equal if `exact`.
std::optional<Difference> first_of(std::initializer_list<Difference> all, bool exact) {
  for (const Difference& one : all) {
    if (one.is == one.was) continue;
    if (exact || !(distance(one.is, one.was) <= one.tolerance)) return one;
  }
  return std::nullopt;
}

}  // namespace

SelfCheck::SelfCheck(const Team& team, const std::filesystem::path& run, const TrainState& state,
                     const Computation& computation, const std::string& why_not, RunLog& log) {
  if (why_not.empty()) {
    expected_ = read_by_leader(team, run, state);
  } else {
    expected_.why_none = why_not;
  }
  if (expected_.step) {
    change_ = change_of(expected_.step->computation, computation);
    if (!change_.same_step) expected_ = {std::nullopt, change_.text};
  }
  if (!team.leads()) return;
  try {
    write_self_check(run, state.step, computation, expected_.step);
  } catch (const Error& error) {
    log.note(say("warning: the self-check of the next resume may have nothing to compare with: ",
                 error.what()));
  }
}

void SelfCheck::compare(const Step& step, const std::string& dtype, RunLog& log) const {
  const auto tell = [&](const std::string& verdict, const std::string& why) {
    log.note(fmt::format("self-check of step {}: {}{}", step.step, verdict,
                         why.empty() ? "" : " (" + why + ")"));
    log.event(kEvent, step.step, {{"verdict", verdict}, {"why", why}});
  };
  const auto nothing = [&](const std::string& why) { tell("nothing to compare with", why); };
  if (!expected_.step) return nothing(expected_.why_none);
  const RecordedStep& was = expected_.step->taken;
  const RecordedStep& is = step.taken;
  const bool same_samples = was.skips == is.skips && was.rollbacks == is.rollbacks;
  if (!same_samples || expected_.step->step != step.step) {
    return nothing("other samples were left out");
  }
  const Tolerance within = tolerance_of(dtype);
  const Difference loss{"the loss", is.loss, was.loss, within.loss};
  const Difference norm{"the gradient norm", is.grad_norm, was.grad_norm, within.grad_norm};
  const auto first = [&](bool exact) {
    return step.norm_compares ? first_of({loss, norm}, exact) : first_of({loss}, exact);
  };
  const std::string without = step.norm_compares ? "" : "loss only: residuals are zero";
  if (!first(true)) return tell("bit-identical", without);
  std::string reason = change_.text;
  if (step.products_chosen) {
    reason += say(reason.empty() ? "" : ", ", "matrix-product libraries were chosen again");
  }
  const auto found = first(reason.empty());
  if (!found) return tell("equal within layout tolerance", reason);
  const std::string what = fmt::format(
      "step {}, repeated from the same weights, differs from the run before: {} is {} instead of "
      "{}, "
      "relative difference {:.1e}",
      step.step, found->item, found->is, found->was, distance(found->is, found->was));
  const std::string allowed =
      reason.empty() ? std::string(", and nothing that decides its bits has changed")
                     : fmt::format(", but only {:.0e} is allowed for {}", found->tolerance, reason);
  log.event("failure", step.step, {{"text", what + allowed}});
  throw on_all_ranks(CheckpointError(fmt::format(
      "{}{}.\nSilent data corruption or changed software: check the machine with 'trireme doctor'. "
      "Then "
      "resume from an older step with --checkpoint.resume=STEP, or accept the difference with "
      "--checkpoint.allow_changes='[\"all\"]'",
      what, allowed)));
}

SelfCheck::Tolerance SelfCheck::tolerance_of(const std::string& dtype) {
  if (dtype == "float32") return {.loss = 1e-5, .grad_norm = 1e-4};
  if (dtype == "float16") return {.loss = 2e-3, .grad_norm = 1e-2};
  if (dtype == "float8") return {.loss = 5e-2, .grad_norm = 2e-1};
  return {.loss = 1e-2, .grad_norm = 5e-2};  // bfloat16
}

}  // namespace trireme
