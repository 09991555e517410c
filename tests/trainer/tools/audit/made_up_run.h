#pragma once
#include <filesystem>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "data/sequencer.h"
#include "trainer/config/run_config.h"
#include "trainer/telemetry/events_log.h"
#include "trainer/telemetry/metrics_log.h"
#include "trainer/telemetry/step_ledger.h"
#include "trainer/tools/audit/audit.h"

namespace trireme {

// The records of a run that never was: steps whose loss is a hash of all that it depends on, with
// kills, resumes in other layouts, skips and rollbacks where a generator puts them. They are
// written as the trainer writes them.
class MadeUpRun {
 public:
  struct Chances {  // in each step
    double kill = 0, skip = 0, rollback = 0;
  };
  MadeUpRun(std::filesystem::path folder, const data::SampleSource& source, std::uint64_t seed);

  // Runs to that step and ends.
  void run(std::int64_t steps, const Chances& chances);

  static constexpr std::int64_t kBatch = 4, kInterval = 5;  // some seeds have shorter steps first
  // Of two sources in unequal parts; with `stages` these change twice, and a third joins.
  static data::SampleSource source(const std::filesystem::path& folder, bool stages = false);

 private:
  struct State {
    std::int64_t step = 0, tokens = 0;
    std::uint64_t samples = 0;
    data::LeftOut left_out;
    std::uint64_t bits = 1;  // of the weights
    double loss = 0, grad_norm = 0;

    std::uint64_t position() const { return left_out.sample(samples); }
    data::SampleRange next(std::uint64_t count) const {
      return {position(), left_out.sample(samples + count - 1) + 1};
    }
  };
  bool chance(double probability);
  std::string weights() const;
  void open(const char* why);
  void start_or_resume();
  void take_step();
  void skip();
  void roll_back();
  void kill();
  void save();
  std::int64_t sequences() const;  // of the next step
  data::SampleRange next() const { return state_.next(static_cast<std::uint64_t>(sequences())); }

  std::filesystem::path folder_;
  const data::SampleSource& source_;
  std::mt19937_64 random_;
  bool reproducible_;
  TrainingConfig training_;
  std::int64_t ranks_ = 1, incarnation_ = 0;
  std::vector<data::SampleRange> config_skip_;
  State state_;
  std::map<std::int64_t, State> saved_;
  std::optional<EventsLog> events_;
  std::optional<StepLedger> ledger_;
  std::optional<MetricsLog> metrics_;
};

// What an audit finds, the token files included.
Findings audit_with_data(const std::filesystem::path& run, const data::SampleSource& source);

}  // namespace trireme
