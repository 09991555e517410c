#include "trainer/loop/expected_step.h"

#include "model/base/file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFileName = "self_check.json";

// The contents of self_check.json.
struct Started {
  std::int64_t since = 0;  // the computation applies to later steps
  Computation computation;
  std::optional<ExpectedStep> expected;
};

std::optional<Started> last_start(const fs::path& run) {
  std::error_code why;
  if (!fs::exists(run / kFileName, why)) return std::nullopt;
  try {
    const json object = json::parse(read_text(run / kFileName));
    Started started{object.at("since").get<std::int64_t>(),
                    object.at("computation").get<Computation>(), std::nullopt};
    if (!object.at("expected").is_null()) started.expected = expected_from(object["expected"]);
    return started;
  } catch (const json::exception&) {
    return std::nullopt;  // not written by this program
  }
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
  const json object{{"since", as_before ? before->since : started_at},
                    {"computation", computation},
                    {"expected", expected ? to_json(*expected) : json()}};
  replace_text(run / kFileName, object.dump(1, ' ', false, json::error_handler_t::replace) + "\n");
}

json to_json(const ExpectedStep& expected) {
  return {{"step", expected.step},
          {"weights", expected.weights},
          {"loss", expected.taken.loss},
          {"grad_norm", expected.taken.grad_norm},
          {"skips", expected.taken.skips},
          {"rollbacks", expected.taken.rollbacks},
          {"computation", expected.computation}};
}

ExpectedStep expected_from(const json& object) {
  return {.step = object.at("step").get<std::int64_t>(),
          .weights = object.at("weights").get<std::string>(),
          .taken = {.loss = object.at("loss").get<double>(),
                    .grad_norm = object.at("grad_norm").get<double>(),
                    .skips = object.at("skips").get<std::int64_t>(),
                    .rollbacks = object.at("rollbacks").get<std::int64_t>()},
          .computation = object.at("computation").get<Computation>()};
}

}  // namespace trireme
