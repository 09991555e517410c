#pragma once
#include <optional>
#include <string>

#include "trainer/config/loaded_config.h"
#include "trainer/engine/engine.h"
#include "trainer/loop/data_feed.h"
#include "trainer/loop/run_folder.h"
#include "trainer/loop/run_state.h"
#include "trainer/restart/signals.h"
#include "trainer/telemetry/console.h"
#include "trainer/telemetry/events_log.h"
#include "trainer/telemetry/metrics_log.h"
#include "trainer/telemetry/tensorboard.h"

namespace trireme {

// One incarnation of a run, from its resumption to its end.
class TrainRun {
 public:
  TrainRun(const LoadedConfig& loaded, Device device, int threads);
  ExitCode run();

 private:
  void resume();
  void require_same_run(const checkpoint::Loaded& from) const;
  void open_logs();
  void announce();
  void use_gemm_choices();
  void keep_gemm_choices();

  void step();
  double matrix_peak(double seconds);
  void require_plan_holds() const;
  void validate(StepMetrics& metrics);
  // False, with the reason told and recorded, when it could not be written.
  bool commit();
  [[noreturn]] void throw_uncommitted(const std::string& what) const;
  void prune();
  void warn(const std::string& text);
  ExitCode finish(ExitCode code, const std::string& reason);

  const LoadedConfig& loaded_;
  const RunConfig& config_;
  const std::int64_t total_steps_;
  const int threads_;
  StopSignals signals_;
  data::SampleSource train_data_;
  std::optional<data::SampleSource> validation_data_;
  EngineSpec spec_;
  EnginePlan plan_;
  RunFolder folder_;
  double matrix_peak_ = 0;  // FLOP/s
  int matrix_peak_measured_again_ = 0;
  Stream stream_;
  Arenas arenas_;
  Engine engine_;
  RunProgress progress_;
  std::optional<checkpoint::Loaded> resumed_from_;
  std::int64_t committed_ = -1;  // newest step on disk
  std::string commit_failure_;   // why the last commit did not happen
  std::string gemm_choices_;
  bool gemm_choices_kept_ = true;
  std::string tokenizer_hash_;
  std::optional<MetricsLog> metrics_;
  std::optional<EventsLog> events_;
  std::optional<TensorBoard> tensorboard_;
  Console console_;
};

}  // namespace trireme
