#pragma once
#include "parallel/comm/mpi_calls.h"
#include "parallel/comm/polling_wait.h"
#include "parallel/comm/transfer.h"

namespace trireme::comm {

// An MPI message directly from or to the caller's host memory.
class MpiTransfer final : public Transfer::Pending {
 public:
  enum class Direction : std::uint8_t { kSend, kReceive };

  // Takes ownership of `request`, of `count` elements of `dtype`. The group named by `site`
  // outlives it.
  MpiTransfer(Direction direction, MPI_Request request, std::int64_t count, DType dtype,
              const CallSite& site)
      : direction_(direction), request_(request), count_(count), dtype_(dtype), site_(site) {}
  // Cancels an abandoned receive. Open MPI cannot cancel sends, so an abandoned send is left to
  // complete.
  ~MpiTransfer() override {
    if (request_ == MPI_REQUEST_NULL) return;
    if (direction_ == Direction::kReceive) MPI_Cancel(&request_);
    MPI_Request_free(&request_);
  }
  void wait() override {
    const PollingWait wait;
    MPI_Status status;
    check(MPI_Wait(&request_, &status), site_);
    if (direction_ == Direction::kReceive) check_received(status, count_, dtype_, site_);
  }

 private:
  Direction direction_;
  MPI_Request request_;
  std::int64_t count_;
  DType dtype_;
  CallSite site_;
};

}  // namespace trireme::comm
