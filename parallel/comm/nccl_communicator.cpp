#include "parallel/comm/nccl_communicator.h"

#include <algorithm>
#include <utility>

#include "model/device/copy.h"
#include "parallel/comm/cuda/ordered_reduce.h"
#include "parallel/comm/shapes.h"

namespace trireme {

using comm::queue_of;

namespace {

// Below this size one all-gather of the whole tensors is faster than two exchanges.
constexpr std::size_t kSmallBytes = std::size_t{64} << 10;

std::size_t count_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.count());
}

}  // namespace

// An NCCL communicator for messages, with its stream.
struct NcclCommunicator::Lane {
  Lane(const ncclUniqueId& id, const comm::CallSite& site, Device device)
      : stream(device, Stream::Priority::kUrgent), ready(device), line(id, site) {}

  Stream stream;
  Event ready;
  comm::NcclLine line;
};

class NcclCommunicator::Message final : public Transfer::Pending {
 public:
  Message(Lane& lane, Stream& caller, Device device) : caller_(caller), over_(device) {
    over_.record(lane.stream);
  }
  void wait() override { over_.make_wait(caller_); }

 private:
  Stream& caller_;
  Event over_;
};

// An asynchronous collective on the group's stream.
class NcclCommunicator::Beside final : public Transfer::Pending {
 public:
  Beside(Stream& work, Stream& caller, Device device) : caller_(caller), over_(device) {
    over_.record(work);
  }
  void wait() override { over_.make_wait(caller_); }

 private:
  Stream& caller_;
  Event over_;
};

NcclCommunicator::NcclCommunicator(std::shared_ptr<comm::NcclRanks> ranks,
                                   std::unique_ptr<Communicator> host, std::string name,
                                   bool counts_buffer, bool messages)
    : ranks_(std::move(ranks)),
      host_(std::move(host)),
      name_(std::move(name)),
      counts_buffer_(counts_buffer),
      ready_(ranks_->device),
      done_(ranks_->device) {
  if (messages) make_lanes();
}

// Neighbors, which a pipeline's and a ring's messages go to, are connected now; see NcclRanks.
void NcclCommunicator::make_lanes() {
  const std::vector<ncclUniqueId> ids = comm::share_ids(*host_, lanes_.size());
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    lanes_[i] = std::make_unique<Lane>(ids[i], site("split"), ranks_->device);
  }
  const int next = (rank() + 1) % size(), previous = (rank() + size() - 1) % size();
  for (const bool forward : {true, false}) {
    const int to = forward ? next : previous, from = forward ? previous : next;
    for (const auto& lane : lanes_) {
      const bool sends = lane.get() == &lane_of(rank(), to, "connect");
      const bool receives = lane.get() == &lane_of(from, rank(), "connect");
      if (!sends && !receives) continue;
      const comm::CallSite at = site("connect");
      const cudaStream_t queue = queue_of(lane->stream);
      lane->line.queue(at, [&](ncclComm_t pair) {
        std::byte* const data = ranks_->buffer.data();
        if (sends) lane->line.check(ncclSend(data, 16, ncclInt8, to, pair, queue), at);
        if (receives) lane->line.check(ncclRecv(data + 16, 16, ncclInt8, from, pair, queue), at);
      });
      lane->stream.synchronize();
    }
  }
}

NcclCommunicator::~NcclCommunicator() = default;

bool NcclCommunicator::has_work(const Stream& stream, const Tensor& tensor) const {
  require(stream.device() == ranks_->device && tensor.device == ranks_->device, "group '", name_,
          "' was given a tensor of ", tensor.device, " on a stream of ", stream.device(), ", not ",
          ranks_->device);
  return stream.executes() && tensor.count() > 0;
}

// Runs work() on the group's stream, ordered after the caller's earlier work and before its later
// work.
template <class Work>
void NcclCommunicator::after(Stream& caller, const Work& work) {
  ready_.record(caller);
  ready_.make_wait(ranks_->stream);
  work();
  done_.record(ranks_->stream);
  done_.make_wait(caller);
}

// As above, but the caller's later work does not wait until the transfer is waited for.
template <class Work>
Transfer NcclCommunicator::beside(Stream& caller, const Work& work) {
  ready_.record(caller);
  ready_.make_wait(ranks_->stream);
  work();
  return Transfer(std::make_unique<Beside>(ranks_->stream, caller, ranks_->device));
}

std::int64_t NcclCommunicator::piece_of(DType dtype) const {
  return static_cast<std::int64_t>(ranks_->buffer.bytes() / size_of(dtype)) / size();
}

// Buffer slot of the contribution of `rank`, which is not this rank.
Tensor NcclCommunicator::buffered(int rank, std::int64_t count, DType dtype) const {
  const int slot = rank < this->rank() ? rank : rank - 1;
  const Tensor all{ranks_->buffer.data(), dtype, Shape{(size() - 1) * count}, ranks_->device};
  return all.slice(slot * count, count);
}

// Sends outgoing(r) to, and receives incoming(r) from, every other rank r.
template <class Outgoing, class Incoming>
void NcclCommunicator::exchange(const char* call, const Outgoing& outgoing,
                                const Incoming& incoming) {
  ranks_->line.queue(site(call), [&](ncclComm_t group) {
    for (int i = 1; i < size(); ++i) {
      const int to = (rank() + i) % size(), from = (rank() + size() - i) % size();
      const Tensor out = outgoing(to), in = incoming(from);
      if (out.count() > 0) {
        ranks_->line.check(ncclSend(out.data, count_of(out), comm::nccl_type_of(out.dtype), to,
                                    group, queue_of(ranks_->stream)),
                           site(call, to));
      }
      if (in.count() > 0) {
        ranks_->line.check(ncclRecv(in.data, count_of(in), comm::nccl_type_of(in.dtype), from,
                                    group, queue_of(ranks_->stream)),
                           site(call, from));
      }
    }
  });
}

// out = the ordered sum over ranks of their share_of(this rank); see MpiCommunicator.
template <class ShareOf>
void NcclCommunicator::reduce_own_share(const char* call, const ShareOf& share_of,
                                        const Tensor& out, Reduce reduce) {
  exchange(call, share_of, [&](int from) { return buffered(from, out.count(), out.dtype); });
  comm::cuda::reduce_in_order(ranks_->stream, reduce, out.dtype,
                              {.others = ranks_->buffer.data(),
                               .own = share_of(rank()).data,
                               .own_rank = rank(),
                               .ranks = size()},
                              out.data, out.count());
}

void NcclCommunicator::gather(const char* call, const Tensor& whole, const Tensor& part) {
  ranks_->line.queue(site(call), [&](ncclComm_t group) {
    ranks_->line.check(
        ncclAllGather(part.data, whole.data, count_of(part), comm::nccl_type_of(part.dtype), group,
                      queue_of(ranks_->stream)),
        site(call));
  });
}

// Gathers all contributions, as much as the buffer holds at a time.
void NcclCommunicator::reduce_gathered(const Tensor& tensor, Reduce reduce) {
  const std::int64_t most = piece_of(tensor.dtype);
  for (std::int64_t first = 0; first < tensor.count(); first += most) {
    const Tensor part = tensor.slice(first, std::min(most, tensor.count() - first));
    const Tensor all{ranks_->buffer.data(), part.dtype, Shape{size() * part.count()},
                     ranks_->device};
    gather("all_reduce", all, part);
    // All contributions are contiguous in rank order, this rank's too.
    comm::cuda::reduce_in_order(
        ranks_->stream, reduce, part.dtype,
        {.others = all.data, .own = nullptr, .own_rank = size(), .ranks = size()}, part.data,
        part.count());
  }
}

void NcclCommunicator::all_reduce_piece(const Tensor& piece, Reduce reduce) {
  const std::int64_t share = piece.count() / size(), even = share * size();
  if (share > 0) {
    const Tensor whole = piece.slice(0, even);
    const auto share_of = [&](int r) { return comm::place_of(r, whole, share); };
    reduce_own_share("all_reduce", share_of, share_of(rank()), reduce);
    gather("all_reduce", whole, share_of(rank()));
  }
  if (even < piece.count()) reduce_gathered(piece.slice(even, piece.count() - even), reduce);
}

void NcclCommunicator::reduce_all(const Tensor& tensor, Reduce reduce) {
  if (reduce == Reduce::kMax) return reduce_gathered(tensor, reduce);
  if (!ranks_->ordered_sums) {
    const comm::CallSite at = site("all_reduce");
    return ranks_->line.queue(at, [&](ncclComm_t group) {
      ranks_->line.check(
          ncclAllReduce(tensor.data, tensor.data, count_of(tensor),
                        comm::nccl_type_of(tensor.dtype), ncclSum, group, queue_of(ranks_->stream)),
          at);
    });
  }
  if (tensor.bytes() <= kSmallBytes &&
      tensor.bytes() * static_cast<std::size_t>(size()) <= ranks_->buffer.bytes()) {
    return reduce_gathered(tensor, reduce);
  }
  const std::int64_t most = piece_of(tensor.dtype) * size();
  for (std::int64_t first = 0; first < tensor.count(); first += most) {
    all_reduce_piece(tensor.slice(first, std::min(most, tensor.count() - first)), reduce);
  }
}

void NcclCommunicator::reduce_part(const Tensor& part, const Tensor& whole) {
  if (!ranks_->ordered_sums) {
    const comm::CallSite at = site("reduce_scatter");
    return ranks_->line.queue(at, [&](ncclComm_t group) {
      ranks_->line.check(
          ncclReduceScatter(whole.data, part.data, count_of(part), comm::nccl_type_of(part.dtype),
                            ncclSum, group, queue_of(ranks_->stream)),
          at);
    });
  }
  const std::int64_t most = piece_of(part.dtype);
  for (std::int64_t first = 0; first < part.count(); first += most) {
    const std::int64_t count = std::min(most, part.count() - first);
    const auto share_of = [&](int r) { return whole.slice(r * part.count() + first, count); };
    reduce_own_share("reduce_scatter", share_of, part.slice(first, count), Reduce::kSum);
  }
}

bool NcclCommunicator::has_parts(const char* call, const Stream& stream, const Tensor& whole,
                                 const Tensor& part) const {
  comm::check_parts(call, *this, whole, part);
  if (!has_work(stream, part)) return false;
  comm::check_places(call, *this, whole, part);
  return true;
}

void NcclCommunicator::all_reduce(Stream& stream, Tensor tensor, Reduce reduce) {
  if (!stream.on_cuda()) return host_->all_reduce(stream, tensor, reduce);
  if (!has_work(stream, tensor)) return;
  after(stream, [&] { reduce_all(tensor, reduce); });
}

void NcclCommunicator::all_gather(Stream& stream, Tensor whole, Tensor part) {
  if (!stream.on_cuda()) return host_->all_gather(stream, whole, part);
  if (!has_parts("all_gather", stream, whole, part)) return;
  after(stream, [&] { gather("all_gather", whole, part); });
}

void NcclCommunicator::reduce_scatter(Stream& stream, Tensor part, Tensor whole) {
  if (!stream.on_cuda()) return host_->reduce_scatter(stream, part, whole);
  if (!has_parts("reduce_scatter", stream, whole, part)) return;
  after(stream, [&] { reduce_part(part, whole); });
}

Transfer NcclCommunicator::start_all_reduce(Stream& stream, Tensor tensor, Reduce reduce) {
  if (!stream.on_cuda()) return host_->start_all_reduce(stream, tensor, reduce);
  if (!has_work(stream, tensor)) return {};
  return beside(stream, [&] { reduce_all(tensor, reduce); });
}

Transfer NcclCommunicator::start_all_gather(Stream& stream, Tensor whole, Tensor part) {
  if (!stream.on_cuda()) return host_->start_all_gather(stream, whole, part);
  if (!has_parts("all_gather", stream, whole, part)) return {};
  return beside(stream, [&] { gather("all_gather", whole, part); });
}

Transfer NcclCommunicator::start_reduce_scatter(Stream& stream, Tensor part, Tensor whole) {
  if (!stream.on_cuda()) return host_->start_reduce_scatter(stream, part, whole);
  if (!has_parts("reduce_scatter", stream, whole, part)) return {};
  return beside(stream, [&] { reduce_part(part, whole); });
}

void NcclCommunicator::all_to_all(Stream& stream, const RankBlocks& received,
                                  const RankBlocks& sent) {
  if (!stream.on_cuda()) return host_->all_to_all(stream, received, sent);
  comm::check_blocks("all_to_all", *this, received, sent);
  // A rank without elements to send may receive some.
  if (!has_work(stream, sent.tensor) && !has_work(stream, received.tensor)) return;
  comm::check_apart("all_to_all", received, sent);
  const auto block_of = [this](const RankBlocks& blocks) {
    return [this, &blocks](int r) { return blocks.of(r, size()); };
  };
  after(stream, [&] {
    const Tensor own = sent.of(rank(), size());
    if (own.count() > 0) {
      copy_bytes(ranks_->stream, received.of(rank(), size()).data, own.data, own.bytes());
    }
    exchange("all_to_all", block_of(sent), block_of(received));
  });
}

void NcclCommunicator::broadcast(Stream& stream, Tensor tensor, int root) {
  if (!stream.on_cuda()) return host_->broadcast(stream, tensor, root);
  comm::check_root("broadcast", *this, root);
  if (!has_work(stream, tensor)) return;
  after(stream, [&] {
    ranks_->line.queue(site("broadcast", root), [&](ncclComm_t group) {
      ranks_->line.check(
          ncclBroadcast(tensor.data, tensor.data, count_of(tensor),
                        comm::nccl_type_of(tensor.dtype), root, group, queue_of(ranks_->stream)),
          site("broadcast", root));
    });
  });
}

void NcclCommunicator::barrier(Stream& stream) {
  if (!stream.executes()) return;
  stream.synchronize();
  Stream host_stream;
  host_->barrier(host_stream);
}

NcclCommunicator::Lane& NcclCommunicator::lane_of(int from, int to, const char* call) {
  const auto& lane = lanes_[static_cast<std::size_t>((from < to ? 0 : 2) + from % 2)];
  require(lane != nullptr, call, " in group '", name_, "', which was made without messages");
  return *lane;
}

template <class Call>
Transfer NcclCommunicator::start(Stream& stream, Lane& lane, const comm::CallSite& at,
                                 const Call& call) {
  lane.ready.record(stream);
  lane.ready.make_wait(lane.stream);
  lane.line.queue(at, [&](ncclComm_t pair) { lane.line.check(call(pair), at); });
  return Transfer(std::make_unique<Message>(lane, stream, ranks_->device));
}

Transfer NcclCommunicator::start_send(Stream& stream, Tensor tensor, int to) {
  if (!stream.on_cuda()) return host_->start_send(stream, tensor, to);
  comm::check_peer("send", *this, to);
  if (!has_work(stream, tensor)) return {};
  Lane& lane = lane_of(rank(), to, "send");
  return start(stream, lane, site("send", to), [&](ncclComm_t pair) {
    return ncclSend(tensor.data, count_of(tensor), comm::nccl_type_of(tensor.dtype), to, pair,
                    queue_of(lane.stream));
  });
}

Transfer NcclCommunicator::start_receive(Stream& stream, Tensor tensor, int from) {
  if (!stream.on_cuda()) return host_->start_receive(stream, tensor, from);
  comm::check_peer("receive", *this, from);
  if (!has_work(stream, tensor)) return {};
  Lane& lane = lane_of(from, rank(), "receive");
  return start(stream, lane, site("receive", from), [&](ncclComm_t pair) {
    return ncclRecv(tensor.data, count_of(tensor), comm::nccl_type_of(tensor.dtype), from, pair,
                    queue_of(lane.stream));
  });
}

}  // namespace trireme
