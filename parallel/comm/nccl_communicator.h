#pragma once
#include <array>
#include <memory>
#include <string>

#include "model/device/event.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/nccl_ranks.h"

namespace trireme {

// A Communicator over NCCL for tensors of this rank's GPU; tensors in host memory go over `host`, a
// communicator of the same group. Work runs on a high-priority stream of the group: it waits for
// the work enqueued on the caller's stream, and later work of the caller waits for it; after an
// asynchronous start, only work enqueued after wait() does.
//
// Sums are NCCL's own reductions, which round bfloat16 at every hop and whose order depends on the
// number of ranks; every rank gets the same bits. With ordered sums contributions are exchanged and
// summed by one fixed tree, with the bits of MpiCommunicator, through a fixed-size buffer; so are
// maxima always, since NCCL's may lose a NaN.
//
// Messages use NCCL communicators of their own, so that a message that waits for its peer blocks
// neither collectives nor messages in other directions: one for each pair of {to a higher rank, to
// a lower rank} and {from an even rank, from an odd rank}. In a pipeline or a ring no two adjacent
// pairs of ranks share one in the same direction. A message of the wrong size is not detected.
class NcclCommunicator final : public Communicator {
 public:
  // Collective over the group. `counts_buffer`: whether the buffer of `ranks` is part of this
  // group's buffer_bytes(), as it is of one group's.
  NcclCommunicator(std::shared_ptr<comm::NcclRanks> ranks, std::unique_ptr<Communicator> host,
                   std::string name, bool counts_buffer, bool messages);
  ~NcclCommunicator() override;

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  std::size_t buffer_bytes() const override {
    return host_->buffer_bytes() + (counts_buffer_ ? ranks_->buffer.bytes() : 0);
  }
  void all_reduce(Stream& stream, Tensor tensor, Reduce reduce) override;
  void all_gather(Stream& stream, Tensor whole, Tensor part) override;
  void reduce_scatter(Stream& stream, Tensor part, Tensor whole) override;
  void all_to_all(Stream& stream, const RankBlocks& received, const RankBlocks& sent) override;
  void broadcast(Stream& stream, Tensor tensor, int root) override;
  void barrier(Stream& stream) override;
  Transfer start_all_reduce(Stream& stream, Tensor tensor, Reduce reduce) override;
  Transfer start_all_gather(Stream& stream, Tensor whole, Tensor part) override;
  Transfer start_reduce_scatter(Stream& stream, Tensor part, Tensor whole) override;
  bool is_async() const override { return true; }
  Transfer start_send(Stream& stream, Tensor tensor, int to) override;
  Transfer start_receive(Stream& stream, Tensor tensor, int from) override;

 private:
  struct Lane;
  class Message;
  class Beside;

  comm::CallSite site(const char* call, int peer = -1) const {
    return {call, name_, rank(), size(), peer};
  }
  bool has_work(const Stream& stream, const Tensor& tensor) const;
  bool has_parts(const char* call, const Stream& stream, const Tensor& whole,
                 const Tensor& part) const;
  template <class Work>
  void after(Stream& caller, const Work& work);
  template <class Work>
  Transfer beside(Stream& caller, const Work& work);
  std::int64_t piece_of(DType dtype) const;
  Tensor buffered(int rank, std::int64_t count, DType dtype) const;
  template <class Outgoing, class Incoming>
  void exchange(const char* call, const Outgoing& outgoing, const Incoming& incoming);
  template <class ShareOf>
  void reduce_own_share(const char* call, const ShareOf& share_of, const Tensor& out,
                        Reduce reduce);
  void gather(const char* call, const Tensor& whole, const Tensor& part);
  void reduce_gathered(const Tensor& tensor, Reduce reduce);
  void all_reduce_piece(const Tensor& piece, Reduce reduce);
  void reduce_all(const Tensor& tensor, Reduce reduce);
  void reduce_part(const Tensor& part, const Tensor& whole);
  void make_lanes();
  Lane& lane_of(int from, int to, const char* call);
  template <class Call>
  Transfer start(Stream& stream, Lane& lane, const comm::CallSite& at, const Call& call);

  std::shared_ptr<comm::NcclRanks> ranks_;
  std::unique_ptr<Communicator> host_;
  std::string name_;
  bool counts_buffer_;
  Event ready_, done_;
  std::array<std::unique_ptr<Lane>, 4> lanes_;
};

}  // namespace trireme
