#include "tests/cuda_emulator/ranks.h"

#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/base/philox.h"
#include "tests/cuda_emulator/device_memory.h"
#include "tests/cuda_emulator/device_queues.h"
#include "tests/cuda_emulator/fibers.h"

namespace trireme::emulator {
namespace {

constexpr std::size_t kStackOfRank = std::size_t{1} << 20;

// Schedulable: a rank, a thread of one, or a hardware queue.
struct Delay {
  std::uint64_t until = 0;  // this turn it rests
};

struct Rank {
  std::function<bool()> ready;
  std::string what;
  int device = 0;
  bool done = false;
  Delay delay;
};

struct Task {
  std::function<bool()> ready;
  std::function<void()> work;
  std::string what;
  int rank;
  Delay delay;
};

class Job {
 public:
  Job(const JobOptions& given, const std::function<void(int)>& body);
  ~Job();
  void run();

  void pause(std::function<bool()> ready, std::string what);
  void add(Task task) { tasks_.push_back(std::move(task)); }
  void fail(const std::string& why) {
    if (failure_.empty()) failure_ = why;
  }
  Rank& rank() { return ranks_[static_cast<std::size_t>(running)]; }

  const JobOptions options;
  int running = -1;

 private:
  std::uint64_t draw(std::uint64_t below);
  template <class Ready, class Move>
  bool try_to_move(Delay& delay, bool patient, const Ready& ready, const Move& move);
  bool move_one(bool patient);
  bool move_actor(std::size_t actor, bool patient);
  void turn_to(std::size_t rank);
  bool is_done() const;
  std::string report() const;

  const std::function<void(int)>& body_;
  const DeviceMemory::Access access_;  // guarding it at every move would take most of the time
  const std::map<std::size_t, std::size_t> blocks_ = DeviceMemory::get().blocks();
  std::vector<Rank> ranks_;
  std::vector<Task> tasks_;
  std::vector<std::vector<Delay>> queues_;  // of each device
  std::exception_ptr thrown_;
  std::string failure_;
  bool is_done_ = false;
  std::uint64_t turn_ = 0, draws_ = 0;
};

Job* job = nullptr;
std::uint64_t jobs = 0;

Fibers& fibers() {
  static Fibers fibers(kStackOfRank);
  return fibers;
}

Job::Job(const JobOptions& given, const std::function<void(int)>& body)
    : options(given), body_(body), ranks_(static_cast<std::size_t>(given.ranks)) {
  require(job == nullptr, "a job in a job");
  job = this;
  ++jobs;
  open_devices(options);
  queues_.assign(ranks_.size(), std::vector<Delay>(hardware_queues()));
}

Job::~Job() {
  close_devices();
  // What ranks that came to their end have kept belongs to the process, as libraries' memory does.
  if (!is_done_) DeviceMemory::get().return_to(blocks_);
  job = nullptr;
}

std::uint64_t Job::draw(std::uint64_t below) {
  return philox(options.seed, draws_++)[0] % below;
}

// An actor that has moved may rest for a while: any delay a machine could bring.
template <class Ready, class Move>
bool Job::try_to_move(Delay& delay, bool patient, const Ready& ready, const Move& move) {
  if (patient && delay.until > turn_) return false;
  if (!ready()) return false;
  if (draw(4) == 0) delay.until = turn_ + draw(64);
  move();
  return true;
}

void Job::turn_to(std::size_t rank) {
  running = static_cast<int>(rank);
  if (fibers().resume(rank)) ranks_[rank].done = true;
  running = -1;
}

bool Job::move_actor(std::size_t actor, bool patient) {
  if (actor < ranks_.size()) {
    Rank& rank = ranks_[actor];
    return try_to_move(
        rank.delay, patient, [&] { return !rank.done && (!rank.ready || rank.ready()); },
        [&] { turn_to(actor); });
  }
  actor -= ranks_.size();
  const std::size_t queues = hardware_queues();
  if (actor < ranks_.size() * queues) {
    const std::size_t device = actor / queues, queue = actor % queues;
    return try_to_move(
        queues_[device][queue], patient, [&] { return can_start(device, queue); },
        [&] { start(device, queue); });
  }
  Task& task = tasks_[actor - ranks_.size() * queues];
  std::function<void()> work;
  int rank = -1;
  const bool moves = try_to_move(task.delay, patient, task.ready, [&] {
    work = std::move(task.work);
    rank = task.rank;
  });
  if (!moves) return false;
  tasks_.erase(tasks_.begin() + static_cast<std::ptrdiff_t>(actor - ranks_.size() * queues));
  running = rank;
  work();
  running = -1;
  return true;
}

bool Job::move_one(bool patient) {
  const std::size_t actors = ranks_.size() * (1 + hardware_queues()) + tasks_.size();
  const std::size_t first = draw(actors);
  for (std::size_t i = 0; i < actors; ++i) {
    if (move_actor((first + i) % actors, patient)) return true;
  }
  return false;
}

bool Job::is_done() const {
  for (const Rank& rank : ranks_) {
    if (!rank.done) return false;
  }
  return tasks_.empty() && devices_are_idle();
}

void Job::run() {
  fibers().prepare(ranks_.size(), [this] {
    const int rank = running;
    try {
      body_(rank);
    } catch (...) {
      if (!thrown_) thrown_ = std::current_exception();
    }
  });
  for (std::size_t i = 0; i < ranks_.size(); ++i) ranks_[i].device = static_cast<int>(i);
  while (!is_done()) {
    ++turn_;
    if (!move_one(true) && !move_one(false)) throw Hang(report());
    if (thrown_) std::rethrow_exception(thrown_);
    if (!failure_.empty()) throw Error(failure_);
  }
  is_done_ = true;
}

std::string Job::report() const {
  std::string text = "deadlock";
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (!ranks_[i].done) text += say("\n  rank ", i, " waits for ", ranks_[i].what);
  }
  for (const Task& task : tasks_) {
    text += say("\n  a thread of rank ", task.rank, " waits for ", task.what);
  }
  return text + describe_devices();
}

void Job::pause(std::function<bool()> ready, std::string what) {
  Rank& own = rank();
  own.ready = std::move(ready);
  own.what = std::move(what);
  fibers().pause();
}

}  // namespace

void run_job(const JobOptions& options, const std::function<void(int)>& body) {
  Job run(options, body);
  run.run();
}

bool in_job() {
  return job != nullptr && job->running >= 0;
}

const JobOptions& job_options() {
  require(job != nullptr, "no job runs");
  return job->options;
}

int job_rank() {
  return job->running;
}

std::uint64_t job_number() {
  return jobs;
}

std::string job_variable(const char* name, const char* otherwise) {
  const auto found = job_options().variables.find(name);
  return found == job_options().variables.end() ? otherwise : found->second;
}

int current_device() {
  return in_job() ? job->rank().device : 0;
}

void set_current_device(int device) {
  if (in_job()) job->rank().device = device;
}

void wait_until(std::function<bool()> ready, std::string what) {
  job->pause(std::move(ready), std::move(what));
}

void run_later(std::function<bool()> ready, std::function<void()> work, std::string what) {
  job->add({std::move(ready), std::move(work), std::move(what), job->running, {}});
}

void fail_job(const std::string& why) {
  if (job != nullptr) job->fail(why);
}

}  // namespace trireme::emulator
