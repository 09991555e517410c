#pragma once
#include <optional>
#include <string>

#include "checkpoint/saver.h"
#include "checkpoint/team.h"
#include "parallel/comm/shared_memory.h"
#include "parallel/comm/world.h"
#include "trainer/config/loaded_config.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/engine/replica_check.h"
#include "trainer/engine/step_plan.h"
#include "trainer/loop/evaluations.h"
#include "trainer/loop/gradient_drill.h"
#include "trainer/loop/loss_scaler.h"
#include "trainer/loop/memory_tier.h"
#include "trainer/loop/resumption.h"
#include "trainer/loop/run_folder.h"
#include "trainer/loop/run_log.h"
#include "trainer/loop/run_state.h"
#include "trainer/loop/self_check.h"
#include "trainer/loop/step_guard.h"
#include "trainer/loop/step_trace.h"
#include "trainer/loop/weight_drill.h"
#include "trainer/supervise/watchdog/signals.h"
#include "trainer/telemetry/core_wait.h"

namespace trireme {

// One rank's part in one incarnation of a run, from its resumption to its end. All
// ranks walk the same way at the same time; rank 0 leads: it alone writes logs and
// commits checkpoints.
class TrainRun {
 public:
  TrainRun(LoadedConfig loaded, World& world, Device device, int threads,
           std::optional<GradientDrill> drill, std::optional<WeightDrill> weight_drill);
  ExitCode run();

 private:
  // What the ranks settle together after each step: the most of what each has.
  struct Agreed {
    int signal = 0;  // that asked the run to stop
    bool chose_gemms = false;
    std::uint64_t memory_peak_bytes = 0;
    std::uint64_t process_peak_bytes = 0;
    bool saving = false;  // somebody still writes
  };
  struct StepFlops {
    double useful = 0, issued = 0;
  };
  StepFlops flops_of_all() const;
  std::unique_ptr<SharedMemory> share_memory(World& world, Device device) const;
  Arenas::Shared shared_places(const World& world) const;
  void check_drills();
  void keep_ledger();
  void use_gemm_choices();
  void share_gemm_choices();
  void agree();
  // What it tells of itself: announcement.cpp.
  void announce();
  void end_trace();

  // A step: step.cpp.
  void step();
  Engine::StepResult train(double rate, std::int64_t number);
  void check_itself(const Engine::StepResult& result);
  void look_for_cores(std::int64_t step);
  // Of a step of that share of a full one.
  double matrix_peak(double seconds, double share);
  void require_plan_holds() const;
  // One that was not applied: bad_step.cpp. Its scaled gradients overflowed; or another reason:
  // what the config wants.
  void answer_overflow(std::int64_t number);
  void answer_bad_step(const Engine::StepResult& result, std::int64_t number);
  EventsLog::Details describe_bad_step(const StepGuard::Decision& decision,
                                       const Engine::StepResult& result) const;
  void roll_back(data::SampleRange bad, EventsLog::Details& details);
  // The ledger's lines: ledger_lines.cpp. Where the run stands now; a step that was applied, of
  // which the progress does not know yet.
  LedgerBegin ledger_begin(const char* why) const;
  LedgerStep ledger_step(double rate, const Engine::StepResult& result) const;
  // Checkpoints: saving.cpp. False, with the reason told and recorded, when one could not
  // be written.
  std::unique_ptr<checkpoint::BackgroundWriter> make_writer() const;
  void prepare_saves();
  checkpoint::Snapshot snapshot();
  bool save();    // in the background where the config wants it
  bool commit();  // on disk when it returns
  bool commit_now();
  void follow_save();
  bool finish_save();
  void tell_committed(const checkpoint::Committed& committed, double seconds, double stopped);
  bool tell_failed(std::int64_t step, const Error& error);
  void tell_removed(const std::vector<std::int64_t>& steps);
  void save_to_memory();
  // Whether replicas hold the same: replicas.cpp.
  void prepare_replica_check();
  // Throws PeerError on all ranks, the verdict told and recorded, where two differ.
  void require_equal_replicas();
  void end_replica_check();
  [[noreturn]] void throw_uncommitted(const std::string& what) const;
  ExitCode finish(ExitCode code, const std::string& reason);

  const LoadedConfig loaded_;
  World& world_;
  const RunConfig& config_;
  const std::int64_t total_steps_;
  const int threads_;
  CoreWait core_wait_{threads_};
  StopSignals signals_;
  Ledger& ledger_;
  RankGroups groups_;
  const checkpoint::Team team_;
  const std::string verified_;  // what data.verify found, to be told
  data::SampleSource train_data_;
  const Evaluations evaluations_;
  EngineSpec spec_;
  EnginePlan plan_;
  StepFlops flops_;  // of all ranks in a full step
  RunFolder folder_;
  double matrix_peak_ = 0;  // FLOP/s of this rank
  int matrix_peak_measured_again_ = 0;
  Stream stream_;
  std::unique_ptr<checkpoint::BackgroundWriter> writer_;
  std::unique_ptr<SharedMemory> shared_;  // of data ranks on one host, on the CPU
  Arenas arenas_;
  Engine engine_;
  StepGuard guard_;
  LossScaler scaler_;
  std::optional<GradientDrill> drill_;
  std::optional<WeightDrill> weight_drill_;
  std::optional<ReplicaCheck> replica_check_;
  std::int64_t replicas_checked_ = -1;  // after which step
  std::int64_t replica_checks_ = 0;
  double replica_check_seconds_ = 0;  // of all of them
  RunProgress progress_;
  std::int64_t attempts_ = 0;            // at the step under way
  double logging_seconds_ = 0;           // of the step before, a part of the next one's
  std::uint64_t batch_hash_ = 0;         // what the last of them was trained on, on all ranks
  std::optional<SelfCheck> self_check_;  // until the first step of a resumed run is done
  struct Save {
    std::int64_t step = 0;
    double start = 0, stopped = 0;  // seconds: the clock at its start; how long training stood
  };
  std::optional<checkpoint::Saver> saver_;
  Save save_;                    // under way
  std::int64_t committed_ = -1;  // newest step on disk
  std::string commit_failure_;   // why the last commit did not happen
  std::string gemm_choices_;     // as they stand in the run folder
  bool gemm_choices_kept_ = true;
  Agreed agreed_;
  std::string tokenizer_hash_;
  std::optional<StepTrace> trace_;  // while there are steps to trace
  RunLog log_;
  MemoryTier memory_;
  Resumption resumption_;
};

}  // namespace trireme
