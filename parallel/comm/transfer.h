#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

namespace trireme {

// Handle of an asynchronous message or collective, returned by the start functions of Communicator.
// Its tensors belong to the transfer until wait(): a received tensor must not be read, a sent
// tensor must not be changed. A default-constructed Transfer is complete.
//
// The destructor waits too and drops exceptions. During stack unwinding the peer may never arrive:
// the transfer is then abandoned, and the world must be aborted.
class Transfer {
 public:
  // Nanoseconds of CLOCK_MONOTONIC, as in the flight recorder.
  struct Interval {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  // A communicator's state of a transfer. Destruction before wait() abandons the transfer without
  // waiting.
  class Pending {
   public:
    Pending() = default;
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    virtual ~Pending() = default;
    // Returns when work enqueued later on the transfer's stream will see the result. Called once.
    // Throws PeerError.
    virtual void wait() = 0;
    // After wait(): the interval in which an asynchronous transfer ran, if known.
    virtual Interval ran() const { return {}; }
  };

  Transfer() = default;
  explicit Transfer(std::unique_ptr<Pending> pending)
      : pending_(std::move(pending)), exceptions_(std::uncaught_exceptions()) {}
  Transfer(Transfer&&) noexcept = default;
  // Waits for the replaced transfer first.
  Transfer& operator=(Transfer&& other) {
    if (this != &other) {
      wait();
      pending_ = std::move(other.pending_);
      ran_ = other.ran_;
      exceptions_ = other.exceptions_;
    }
    return *this;
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() {
    if (!pending_ || std::uncaught_exceptions() > exceptions_) return;
    try {
      wait();
    } catch (...) {  // a destructor must not throw
    }
  }

  // Throws PeerError. Further calls return at once.
  void wait() {
    const std::unique_ptr<Pending> pending = std::move(pending_);
    if (!pending) return;
    pending->wait();
    ran_ = pending->ran();
  }
  // After wait(): the interval in which an asynchronous transfer ran; otherwise empty.
  Interval ran() const { return ran_; }
  bool is_pending() const { return pending_ != nullptr; }

 private:
  std::unique_ptr<Pending> pending_;
  Interval ran_;
  int exceptions_ = 0;
};

}  // namespace trireme
