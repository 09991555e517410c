#pragma once
#include "model/device/copy.h"
#include "parallel/comm/shapes.h"

namespace trireme {

// The communicator of size 1: collectives copy or do nothing; there is no peer to send to.
class SelfCommunicator final : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(Stream&, Tensor, Reduce) override {}
  void all_gather(Stream& stream, Tensor whole, Tensor part) override {
    comm::check_parts("all_gather", *this, whole, part);
    if (!stream.executes()) return;
    comm::check_places("all_gather", *this, whole, part);
    copy(stream, whole, part);
  }
  void reduce_scatter(Stream& stream, Tensor part, Tensor whole) override {
    comm::check_parts("reduce_scatter", *this, whole, part);
    if (!stream.executes()) return;
    comm::check_places("reduce_scatter", *this, whole, part);
    copy(stream, part, whole);
  }
  void all_to_all(Stream& stream, const RankBlocks& received, const RankBlocks& sent) override {
    comm::check_blocks("all_to_all", *this, received, sent);
    if (!stream.executes()) return;
    comm::check_apart("all_to_all", received, sent);
    copy(stream, received.of(0, 1), sent.of(0, 1));
  }
  void broadcast(Stream&, Tensor, int root) override { comm::check_root("broadcast", *this, root); }
  void barrier(Stream& stream) override { stream.synchronize(); }
  Transfer start_send(Stream&, Tensor, int to) override {
    comm::check_peer("send", *this, to);
    return {};
  }
  Transfer start_receive(Stream&, Tensor, int from) override {
    comm::check_peer("receive", *this, from);
    return {};
  }

 private:
  static void copy(Stream& stream, const Tensor& to, const Tensor& from) {
    if (to.data == from.data || to.count() == 0) return;
    copy_bytes(stream, to.data, from.data, from.bytes());
  }
};

}  // namespace trireme
