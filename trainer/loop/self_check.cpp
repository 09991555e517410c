#include "trainer/loop/self_check.h"

#include <fmt/format.h>

#include <cmath>

#include "model/base/file.h"
#include "model/base/json.h"

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

void json_fields(auto& f, ExpectedStep& expected) {
  f("step", expected.step);
  f("weights", expected.weights);
  f("loss", expected.taken.loss);
  f("grad_norm", expected.taken.grad_norm);
  f("skips", expected.taken.skips);
  f("rollbacks", expected.taken.rollbacks);
  f("computation", expected.computation);
}

void json_fields(auto& f, Expectation& expectation) {
  f.nullable("step", expectation.step);
  f("why_none", expectation.why_none);
}

namespace {

namespace fs = std::filesystem;

constexpr const char* kFileName = "self_check.json";

// The contents of self_check.json.
struct Started {
  std::int64_t since = 0;  // the computation applies to later steps
  Computation computation;
  std::optional<ExpectedStep> expected;
};

void json_fields(auto& f, Started& started) {
  f("since", started.since);
  f("computation", started.computation);
  f.nullable("expected", started.expected);
}

// Nothing if the file is missing or was not written by this program.
std::optional<Started> last_start(const fs::path& run) {
  std::error_code why;
  if (!fs::exists(run / kFileName, why)) return std::nullopt;
  return valid_json<Started>(read_text(run / kFileName));
}

// Whether the metrics are of the run that wrote the checkpoint.
bool belong_together(const fs::path& metrics, const TrainState& state) {
  if (state.step == 0) return true;
  const auto line = recorded_step(metrics, state.step);
  return line && line->loss == state.loss && line->grad_norm == state.grad_norm;
}

}  // namespace

Expectation expected_step(const fs::path& run, const TrainState& state) {
  const auto none = [](std::string why) { return Expectation{std::nullopt, std::move(why)}; };
  const fs::path metrics = run / "metrics.jsonl";
  const std::int64_t next = state.step + 1;
  const std::optional<Started> before = last_start(run);
  if (!before) return none(say("the previous run wrote no ", kFileName));
  if (const auto line = recorded_step(metrics, next)) {
    if (before->since > state.step) {
      return none(say("the steps up to ", before->since, " were computed differently"));
    }
    if (!belong_together(metrics, state)) {
      return none("metrics.jsonl and the checkpoint are of different runs");
    }
    return {ExpectedStep{next, state.weights, *line, before->computation}, ""};
  }
  const auto& kept = before->expected;
  if (kept && kept->step == next && kept->weights == state.weights) return {*kept, ""};
  return none(say("the run had not reached step ", next));
}

void write_self_check(const fs::path& run, std::int64_t started_at, const Computation& computation,
                      const std::optional<ExpectedStep>& expected) {
  const std::optional<Started> before = last_start(run);
  const bool as_before = before && before->computation == computation && before->since < started_at;
  const Started started{as_before ? before->since : started_at, computation, expected};
  replace_text(run / kFileName, json_text(started, 1) + "\n");
}

std::string text_of(const Expectation& expectation) {
  return json_text(expectation);
}

Expectation parse_expectation(const std::string& text) {
  return read_json<Expectation>(text, "an expectation");
}

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
