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

// The exclusive right of one run to write to a run folder. RUN_DIR/LEASE.json names the holder. A
// renewed lease (Gray and Cheriton 1989) with an incarnation number that fences late writers
// (Chubby: Burrows 2006):
//
// - Each process of the holder has a shared file lock on LEASE.json. Acquiring the lease needs the
//   exclusive lock, and so waits for the last of these processes.
// - On the holder's own kernel a free lock proves that the holder is dead. On other nodes it does
//   not, since a file system may keep locks local to a node: there the holder is dead if the same
//   batch job was started again, or if the file's timestamp was not renewed for one term. Only
//   timestamps set by the file system are compared, and a timestamp that changes while it is
//   watched proves that the holder is alive.
// - A takeover replaces the file by a new one with the next incarnation. A late holder (frozen, or
//   cut off) finds a file other than its own and has to stop: held().
class Lease {
 public:
  // A Slurm batch job: a requeued job keeps its id and increments its restart count.
  struct Job {
    std::string id;  // empty: no batch job
    std::int64_t restarts = 0;
    static Job of_environment();
  };
  static constexpr double kUsualTermS = 30;
  // Environment variable that passes the supervisor's token to the processes it starts.
  static constexpr const char* kTokenVariable = "TRIREME_LEASE";

  // Who renews the lease: a thread of this object, or its holder by calling renew() several times
  // per term. A process whose children get a parent-death signal must be single-threaded: the
  // kernel sends the signal once per thread.
  enum class Renewal : std::uint8_t { kByThread, kByHolder };

  // Acquires the lease for this process and for those that receive its token. Waits until processes
  // of a dead holder have ended (kUsualTermS, but at least one term and at most ten), and up to the
  // dead holder's term where only that proves it dead. Throws CheckpointError with the holder's
  // name if another run has the lease, EnvironmentError if the file cannot be written.
  explicit Lease(const std::filesystem::path& run_dir, double term_s = kUsualTermS,
                 const Job& job = Job::of_environment(), Renewal renewal = Renewal::kByThread);
  // Joins, and also renews, the lease of the supervisor that started this process and passed its
  // token. Throws CheckpointError if that lease has ended.
  static std::unique_ptr<Lease> join(const std::filesystem::path& run_dir,
                                     const std::string& token);
  ~Lease();
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  // False once the lease file was removed or replaced: stop writing then.
  bool held() const;
  void renew();
  // Begins the next incarnation of the run, which fences processes that joined the previous one.
  // Only the lease's owner may call it; throws CheckpointError if the lease is lost.
  void begin_next();
  // Incarnation of the run folder, from 1; persisted in the file `incarnation` in the run folder.
  std::int64_t incarnation() const { return incarnation_; }
  // Argument for join().
  const std::string& token() const { return token_; }
  // Description of the dead holder this lease was taken from; empty if there was none.
  const std::string& taken_from() const { return taken_from_; }

 private:
  Lease() = default;
  // Takes over with the next incarnation; false if another process was faster.
  bool take_place_of(int old, std::int64_t incarnation);
  void start_renewing();

  std::filesystem::path path_;
  double term_s_ = 0;
  Job job_;
  bool is_owner_ = false;
  mutable std::mutex mutex_;  // guards the descriptor: a thread renews the file's timestamp
  int descriptor_ = -1;
  std::int64_t incarnation_ = 0;
  std::string token_, taken_from_;
  std::condition_variable ends_;
  bool ended_ = false;
  std::thread renewer_;
  std::chrono::steady_clock::time_point renewed_at_;
};

// Description of the current holder of the run folder's lease; empty if there is none. Queried
// without a lock wherever a run that starts at the same time could be affected.
std::string lease_holder(const std::filesystem::path& run_dir);

}  // namespace trireme::checkpoint
