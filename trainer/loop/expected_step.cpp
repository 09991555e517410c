#include "trainer/loop/expected_step.h"

#include "model/base/file.h"
#include "model/base/json.h"

namespace trireme {

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

}  // namespace trireme
