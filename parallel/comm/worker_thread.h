#pragma once
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "parallel/comm/transfer.h"

namespace trireme::comm {

// A worker thread that runs jobs in submission order. It starts with the first job and computes on
// one core.
class WorkerThread {
 public:
  // `give_up` makes current and later jobs that wait for other ranks fail promptly.
  explicit WorkerThread(std::function<void()> give_up) : give_up_(std::move(give_up)) {}
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;
  // Waits for the running job and discards the rest.
  ~WorkerThread();

  // After a job has failed, all later jobs fail with the same exception. Abandoning a transfer
  // abandons all jobs.
  Transfer start(std::function<void()> work);
  // Waits until all submitted jobs are done. Rethrows the first failure.
  void drain();

 private:
  struct Job;
  class Wait;
  void run();
  // Gives up and waits until no job runs, so that the memory the jobs use can be freed.
  void abandon();

  std::function<void()> give_up_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;  // the front job is running
  std::exception_ptr failure_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace trireme::comm
