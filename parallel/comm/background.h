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

// A thread that does what it is given, one after the other in the order given, beside the
// caller's. It starts with the first work, and computes with one core.
class Background {
 public:
  // `give_up` lets work that waits for other ranks fail soon; work given later too.
  explicit Background(std::function<void()> give_up) : give_up_(std::move(give_up)) {}
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;
  // Waits until the work begun has ended, and does no more.
  ~Background();

  // Once work has failed, what was given after it fails with the same. A transfer that is given up
  // gives up all work.
  Transfer start(std::function<void()> work);
  // Waits until all work given is done. Throws what some has thrown.
  void drain();

 private:
  struct Job;
  class Wait;
  void run();
  // Waits until no work is done any more, which ends soon: what it works on may go then.
  void abandon();

  std::function<void()> give_up_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Job>> jobs_;  // the first is being done
  std::exception_ptr failure_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace trireme::comm
