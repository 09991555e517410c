#pragma once
#include <exception>
#include <memory>
#include <utility>

namespace trireme {

// A message under way, from Communicator::start_send or start_receive. Its
// tensor belongs to the transfer until wait(): a receiver must not read it, a
// sender must not change it. A default-made Transfer has nothing to wait for.
//
// The destructor waits too, and drops what wait() would throw. Where an
// exception is on its way the peer may never come: there the transfer is given
// up, and the world has to end.
class Transfer {
 public:
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
    if (const std::unique_ptr<Pending> pending = std::move(pending_)) pending->wait();
  }
  bool is_pending() const { return pending_ != nullptr; }

 private:
  std::unique_ptr<Pending> pending_;
  int exceptions_ = 0;
};

}  // namespace trireme
