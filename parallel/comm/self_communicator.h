#pragma once
#include "parallel/comm/communicator.h"

namespace trireme {

// The communicator of one. `part` and `whole` of a collective are the same
// memory, so there is nothing to move; there is nobody to send to.
class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(Stream&, Tensor, Reduce) override {}
  void all_gather(Stream&, Tensor whole, Tensor part) override { require_same(whole, part); }
  void reduce_scatter(Stream&, Tensor part, Tensor whole) override { require_same(whole, part); }
  void send(Stream&, Tensor, int to) override { refuse(to); }
  void receive(Stream&, Tensor, int from) override { refuse(from); }

 private:
  static void require_same(const Tensor& whole, const Tensor& part) {
    require(whole.data == part.data && whole.count() == part.count(),
            "a part of one is the whole, in place");
  }
  static void refuse(int rank) {
    throw Error(say("a communicator of one has no rank ", rank, " to talk to"));
  }
};

}  // namespace trireme
