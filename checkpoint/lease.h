#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace trireme::checkpoint {

// The right to write into a run folder: one run at a time has it. RUN_DIR/LEASE.json names the
// holder. A lease that is renewed (Gray and Cheriton, 1989) with a number that fences late writers
// (Chubby: Burrows, 2006):
//
// - Each process of the holder has a shared file lock on LEASE.json. Who wants the lease needs the
//   exclusive one, and so waits for the last of them.
// - A free lock proves a dead holder to the kernel that kept the lock, the holder's own. Elsewhere,
//   as a file system may keep locks on each node for itself, the holder has to be proven dead by
//   its batch job (the same job, started again), or by a term in which it has not renewed the
//   file's time stamp. Only stamps that the file system gave are compared, and none counts that
//   changes while one looks.
// - Who takes over puts a new file in the old one's place, with the next incarnation. A holder that
//   comes late (frozen, cut off) finds another file there than its own, and has to stop: held().
class Lease {
 public:
  // A batch job by Slurm's names: one that is requeued keeps its id and counts its restarts.
  struct Job {
    std::string id;  // empty: none
    std::int64_t restarts = 0;
    static Job of_environment();
  };
  static constexpr double kUsualTermS = 30;
  // Of the environment: names the supervisor's token to the processes that it starts.
  static constexpr const char* kTokenVariable = "TRIREME_LEASE";

  // Who renews it: a thread of this object's, or its holder by renew(), often within the term. A
  // process whose children are to be signalled at its end must have one thread only: the kernel
  // signals them once for each.
  enum class Renewal : std::uint8_t { kByThread, kByHolder };

  // Takes the lease for this process, and those it names its token to. Waits for what a dead holder
  // started and is being ended (kUsualTermS, but one term at least and ten at most), and as long as
  // the dead one's term says where only that proves it dead. Throws CheckpointError with the
  // holder's name when another has it; EnvironmentError.
  explicit Lease(const std::filesystem::path& run_dir, double term_s = kUsualTermS,
                 const Job& job = Job::of_environment(), Renewal renewal = Renewal::kByThread);
  // Joins the lease of the supervisor that has started this process and named its token, and renews
  // it, too. Throws CheckpointError where that lease is over.
  static std::unique_ptr<Lease> join(const std::filesystem::path& run_dir,
                                     const std::string& token);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // False once somebody removed or replaced the lease file: stop writing then.
  bool held() const;
  void renew();
  // Begins the next incarnation of the run: fences whoever joined the one before. The lease's owner
  // only; throws CheckpointError when it is lost.
  void begin_next();
  // Which of the run folder's incarnations this is, from 1; outlives all holders in the file
  // `incarnation` beside the lease.
  std::int64_t incarnation() const { return incarnation_; }
  // What join() wants to know.
  const std::string& token() const { return token_; }
  // The dead holder this lease was taken from, in words; empty when there was none.
  const std::string& taken_from() const { return taken_from_; }

 private:
  Lease() = default;
  // As the next incarnation; false when another was faster.
  bool take_place_of(int old, std::int64_t incarnation);
  void start_renewing();

  std::filesystem::path path_;
  double term_s_ = 0;
  Job job_;
  bool is_owner_ = false;
  mutable std::mutex mutex_;  // of the descriptor: a thread renews the file's stamp
  int descriptor_ = -1;
  std::int64_t incarnation_ = 0;
  std::string token_, taken_from_;
  std::condition_variable ends_;
  bool ended_ = false;
  std::thread renewer_;
  std::chrono::steady_clock::time_point renewed_at_;
};

// Who holds the run folder's lease just now, in words; empty when nobody does. It is asked without
// a lock wherever a run that starts at that moment could meet it.
std::string lease_holder(const std::filesystem::path& run_dir);

}  // namespace trireme::checkpoint
