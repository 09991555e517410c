#include "parallel/comm/worker_thread.h"

#include <atomic>
#include <utility>

#include "model/device/cpu/threads.h"
#include "parallel/comm/flight_recorder.h"

namespace trireme::comm {

struct WorkerThread::Job {
  std::function<void()> work;
  Transfer::Interval ran;
  std::exception_ptr failure;
  std::atomic<bool> done = false;  // or abandoned
};

class WorkerThread::Wait final : public Transfer::Pending {
 public:
  Wait(WorkerThread& background, std::shared_ptr<Job> job)
      : worker_(background), job_(std::move(job)) {}
  ~Wait() override {
    if (!waited_for_ && !job_->done) worker_.abandon();
  }
  void wait() override {
    waited_for_ = true;
    std::unique_lock guard(worker_.mutex_);
    worker_.changed_.wait(guard, [&] { return job_->done.load(); });
    if (job_->failure) std::rethrow_exception(job_->failure);
  }
  Transfer::Interval ran() const override { return job_->ran; }

 private:
  WorkerThread& worker_;
  std::shared_ptr<Job> job_;
  bool waited_for_ = false;
};

WorkerThread::~WorkerThread() {
  {
    const std::lock_guard guard(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  for (const std::shared_ptr<Job>& job : jobs_) job->done = true;
}

Transfer WorkerThread::start(std::function<void()> work) {
  auto job = std::make_shared<Job>();
  job->work = std::move(work);
  auto wait = std::make_unique<Wait>(*this, job);
  const std::lock_guard guard(mutex_);
  jobs_.push_back(std::move(job));
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  changed_.notify_all();
  return Transfer(std::move(wait));
}

void WorkerThread::drain() {
  std::unique_lock guard(mutex_);
  changed_.wait(guard, [&] { return jobs_.empty(); });
  if (failure_) std::rethrow_exception(failure_);
}

void WorkerThread::abandon() {
  give_up_();
  std::unique_lock guard(mutex_);
  changed_.wait(guard, [&] { return jobs_.empty(); });
}

void WorkerThread::run() {
  cpu::use_threads(1);
  std::unique_lock guard(mutex_);
  for (;;) {
    changed_.wait(guard, [&] { return ends_ || !jobs_.empty(); });
    if (ends_) return;
    Job& job = *jobs_.front();
    std::exception_ptr failure = failure_;
    guard.unlock();
    job.ran.begin = flight_recorder_now();
    try {
      if (!failure) job.work();
    } catch (...) {
      failure = std::current_exception();
    }
    job.ran.end = flight_recorder_now();
    job.work = nullptr;
    guard.lock();
    failure_ = job.failure = failure;
    job.done = true;
    jobs_.pop_front();
    changed_.notify_all();
  }
}

}  // namespace trireme::comm
