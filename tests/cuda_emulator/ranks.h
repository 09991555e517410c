#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>

// The ranks of a job, each with a device of its own, as fibers of this thread. Who moves next, a
// rank or a hardware queue of a device, is drawn from a seed.
namespace trireme::emulator {

inline constexpr int kMostRanks = 8;  // as many devices does each see

struct JobOptions {
  int ranks = 2;
  std::uint64_t seed = 1;
  int multiprocessors = 16;  // of each device
  // What the drivers and NCCL read: CUDA_DEVICE_MAX_CONNECTIONS, CUDA_MODULE_LOADING,
  // NCCL_LAUNCH_ORDER_IMPLICIT.
  std::map<std::string, std::string> variables = {};
};

// Deadlock; what() says who waits for what.
class Hang : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Runs body(rank) on every rank and finishes the devices' work. Throws the first exception of a
// rank, or Hang; the other ranks are then abandoned, and what they hold is lost.
void run_job(const JobOptions& options, const std::function<void(int)>& body);

// Whether a rank of a job is running.
bool in_job();
const JobOptions& job_options();  // in a job
int job_rank();                   // the running one
std::uint64_t job_number();       // of this process's jobs
std::string job_variable(const char* name, const char* otherwise);

// The CUDA device of the running rank; 0 outside a job.
int current_device();
void set_current_device(int device);

// Pauses the running rank until `ready`; `what` is for a hang's report.
void wait_until(std::function<bool()> ready, std::string what);
// Runs `work`, as a thread of the running rank's process would, some time after `ready`.
void run_later(std::function<bool()> ready, std::function<void()> work, std::string what);
// Ends the job with this error, as soon as the scheduler runs.
void fail_job(const std::string& why);

}  // namespace trireme::emulator
