#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

namespace trireme {

// A message or a collective under way, from one of Communicator's start functions. Its
// tensors belong to the transfer until wait(): what is received must not be read, what
// is sent must not be changed. A default-made Transfer has nothing to wait for.
//
// The destructor waits too, and drops what wait() would throw. Where an
// exception is on its way the peer may never come: there the transfer is given
// up, and the world has to end.
class Transfer {
 public:
  // Nanoseconds of CLOCK_MONOTONIC, as ledgers give them.
  struct Interval {
    std::int64_t begin = 0;
    std::int64_t end = 0;
  };
  // What a communicator keeps of a message under way. Its destructor gives the
  // message up without waiting if wait() was not called.
  class Pending {
   public:
    Pending() = default;
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;
    virtual ~Pending() = default;
    // Returns when work queued on the stream the transfer was started on will find it
    // done. Called once. Throws PeerError.
    virtual void wait() = 0;
    // Once waited for: when it was done beside the caller's work, where that is known.
    virtual Interval ran() const { return {}; }
  };

  Transfer() = default;
  explicit Transfer(std::unique_ptr<Pending> pending)
      : pending_(std::move(pending)), exceptions_(std::uncaught_exceptions()) {}
  Transfer(Transfer&&) noexcept = default;
  // The transfer replaced is waited for first.
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

  // Throws PeerError. A second call returns at once.
  void wait() {
    const std::unique_ptr<Pending> pending = std::move(pending_);
    if (!pending) return;
    pending->wait();
    ran_ = pending->ran();
  }
  // Once waited for: when it was done beside the caller's work; else empty.
  Interval ran() const { return ran_; }
  bool is_pending() const { return pending_ != nullptr; }

 private:
  std::unique_ptr<Pending> pending_;
  Interval ran_;
  int exceptions_ = 0;
};

}  // namespace trireme
