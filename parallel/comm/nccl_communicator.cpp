#include "parallel/comm/nccl_communicator.h"

#include <algorithm>
#include <utility>

#include "model/device/copy.h"
#include "parallel/comm/cuda/ordered_reduce.h"
#include "parallel/comm/shapes.h"

namespace trireme {
namespace {

// Below this size one all-gather of the whole tensors is faster than two exchanges.
constexpr std::size_t kSmallBytes = std::size_t{64} << 10;

ncclDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return ncclFloat32;
    case DType::kF64:
      return ncclFloat64;
    case DType::kBf16:
      return ncclBfloat16;
    case DType::kF16:
      return ncclFloat16;
    case DType::kI32:
      return ncclInt32;
  }
  return ncclInt8;
}

std::size_t count_of(const Tensor& tensor) {
  return static_cast<std::size_t>(tensor.count());
}

cudaStream_t queue_of(const Stream& stream) {
  return static_cast<cudaStream_t>(stream.handle());
}

}  // namespace

// An NCCL communicator for messages, with its stream.
struct NcclCommunicator::Lane {
  Lane(comm::NcclLine& parent, const comm::CallSite& site, Device device)
      : line(parent, 0, site.rank, site),
        stream(device, Stream::Priority::kUrgent),
        ready(device) {}

  // NCCL may still be connecting the two ranks when a call returns; the event can be recorded only
  // after NCCL has enqueued the message.
  void settle(const comm::CallSite& site) {
    line.settle(site);
    if (const auto event = std::exchange(unrecorded, nullptr)) event->record(stream);
  }

  comm::NcclLine line;
  Stream stream;
  Event ready;
  std::shared_ptr<Event> unrecorded;
};

class NcclCommunicator::Message final : public Transfer::Pending {
 public:
  Message(Lane& lane, Stream& caller, std::shared_ptr<Event> over, const comm::CallSite& site)
      : lane_(lane), caller_(caller), over_(std::move(over)), site_(site) {}
  void wait() override {
    if (lane_.unrecorded == over_) lane_.settle(site_);
    over_->make_wait(caller_);
  }

 private:
  Lane& lane_;
  Stream& caller_;
  std::shared_ptr<Event> over_;
  comm::CallSite site_;
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

NcclCommunicator::NcclCommunicator(comm::NcclLine& parent, int color,
                                   std::unique_ptr<Communicator> host, std::string name,
                                   Device device, bool messages)
    : host_(std::move(host)),
      name_(std::move(name)),
      device_(device),
      line_(parent, color, host_->rank(), site("split")),
      stream_(device, Stream::Priority::kUrgent),
      ready_(device),
      done_(device),
      buffer_(kBufferBytes, device) {
  require(buffer_.bytes() >= 16 * static_cast<std::size_t>(size()), "group '", name_,
          "': ", buffer_.bytes(), " bytes are not enough for ", size(), " ranks");
  if (!messages) return;
  for (auto& lane : lanes_) lane = std::make_unique<Lane>(line_, site("split"), device);
}

NcclCommunicator::~NcclCommunicator() = default;

bool NcclCommunicator::has_work(const Stream& stream, const Tensor& tensor) const {
  require(stream.device() == device_ && tensor.device == device_, "group '", name_,
          "' was given a tensor of ", tensor.device, " on a stream of ", stream.device(), ", not ",
          device_);
  return stream.executes() && tensor.count() > 0;
}

// Runs work() on the group's stream, ordered after the caller's earlier work and before its later
// work.
template <class Work>
void NcclCommunicator::after(Stream& caller, const Work& work) {
  ready_.record(caller);
  ready_.make_wait(stream_);
  work();
  done_.record(stream_);
  done_.make_wait(caller);
}

// As above, but the caller's later work does not wait until the transfer is waited for.
template <class Work>
Transfer NcclCommunicator::beside(Stream& caller, const Work& work) {
  ready_.record(caller);
  ready_.make_wait(stream_);
  work();
  return Transfer(std::make_unique<Beside>(stream_, caller, device_));
}

std::int64_t NcclCommunicator::piece_of(DType dtype) const {
  return static_cast<std::int64_t>(buffer_.bytes() / size_of(dtype)) / size();
}

// Buffer slot of the contribution of `rank`, which is not this rank.
Tensor NcclCommunicator::buffered(int rank, std::int64_t count, DType dtype) const {
  const int slot = rank < this->rank() ? rank : rank - 1;
  const Tensor all{buffer_.data(), dtype, Shape{(size() - 1) * count}, device_};
  return all.slice(slot * count, count);
}

// Sends outgoing(r) to, and receives incoming(r) from, every other rank r.
template <class Outgoing, class Incoming>
void NcclCommunicator::exchange(const char* call, const Outgoing& outgoing,
                                const Incoming& incoming) {
  line_.queue(site(call), [&](ncclComm_t group) {
    for (int i = 1; i < size(); ++i) {
      const int to = (rank() + i) % size(), from = (rank() + size() - i) % size();
      const Tensor out = outgoing(to), in = incoming(from);
      line_.check(
          ncclSend(out.data, count_of(out), type_of(out.dtype), to, group, queue_of(stream_)),
          site(call, to));
      line_.check(
          ncclRecv(in.data, count_of(in), type_of(in.dtype), from, group, queue_of(stream_)),
          site(call, from));
    }
  });
  line_.settle(site(call));
}

// out = the ordered sum over ranks of their share_of(this rank); see MpiCommunicator.
template <class ShareOf>
void NcclCommunicator::reduce_own_share(const char* call, const ShareOf& share_of,
                                        const Tensor& out, Reduce reduce) {
  exchange(call, share_of, [&](int from) { return buffered(from, out.count(), out.dtype); });
  comm::cuda::reduce_in_order(
      stream_, reduce, out.dtype,
      {.others = buffer_.data(), .own = share_of(rank()).data, .own_rank = rank(), .ranks = size()},
      out.data, out.count());
}

void NcclCommunicator::gather(const char* call, const Tensor& whole, const Tensor& part) {
  line_.queue(site(call), [&](ncclComm_t group) {
    line_.check(ncclAllGather(part.data, whole.data, count_of(part), type_of(part.dtype), group,
                              queue_of(stream_)),
                site(call));
  });
  line_.settle(site(call));
}

void NcclCommunicator::all_reduce_small(const Tensor& tensor, Reduce reduce) {
  const std::int64_t count = tensor.count();
  const Tensor all{buffer_.data(), tensor.dtype, Shape{size() * count}, device_};
  gather("all_reduce", all, tensor);
  // All contributions are contiguous in rank order, this rank's too.
  comm::cuda::reduce_in_order(
      stream_, reduce, tensor.dtype,
      {.others = all.data, .own = nullptr, .own_rank = size(), .ranks = size()}, tensor.data,
      count);
}

void NcclCommunicator::all_reduce_piece(const Tensor& piece, Reduce reduce) {
  const std::int64_t share = piece.count() / size(), even = share * size();
  if (share > 0) {
    const Tensor whole = piece.slice(0, even);
    const auto share_of = [&](int r) { return comm::place_of(r, whole, share); };
    reduce_own_share("all_reduce", share_of, share_of(rank()), reduce);
    gather("all_reduce", whole, share_of(rank()));
  }
  if (even < piece.count()) all_reduce_small(piece.slice(even, piece.count() - even), reduce);
}

void NcclCommunicator::reduce_all(const Tensor& tensor, Reduce reduce) {
  if (tensor.bytes() <= kSmallBytes &&
      tensor.bytes() * static_cast<std::size_t>(size()) <= buffer_.bytes()) {
    return all_reduce_small(tensor, reduce);
  }
  const std::int64_t most = piece_of(tensor.dtype) * size();
  for (std::int64_t first = 0; first < tensor.count(); first += most) {
    all_reduce_piece(tensor.slice(first, std::min(most, tensor.count() - first)), reduce);
  }
}

void NcclCommunicator::reduce_part(const Tensor& part, const Tensor& whole) {
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

void NcclCommunicator::all_to_all(Stream& stream, Tensor received, Tensor sent) {
  if (!stream.on_cuda()) return host_->all_to_all(stream, received, sent);
  comm::check_blocks("all_to_all", *this, received, sent);
  if (!has_work(stream, sent)) return;
  comm::check_apart("all_to_all", received, sent);
  const std::int64_t block = sent.count() / size();
  const auto block_of = [block](const Tensor& tensor) {
    return [&tensor, block](int r) { return comm::place_of(r, tensor, block); };
  };
  after(stream, [&] {
    const Tensor own = comm::place_of(rank(), sent, block);
    copy_bytes(stream_, comm::place_of(rank(), received, block).data, own.data, own.bytes());
    exchange("all_to_all", block_of(sent), block_of(received));
  });
}

void NcclCommunicator::broadcast(Stream& stream, Tensor tensor, int root) {
  if (!stream.on_cuda()) return host_->broadcast(stream, tensor, root);
  comm::check_root("broadcast", *this, root);
  if (!has_work(stream, tensor)) return;
  after(stream, [&] {
    line_.queue(site("broadcast", root), [&](ncclComm_t group) {
      line_.check(ncclBroadcast(tensor.data, tensor.data, count_of(tensor), type_of(tensor.dtype),
                                root, group, queue_of(stream_)),
                  site("broadcast", root));
    });
    line_.settle(site("broadcast", root));
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
  lane.settle(at);
  lane.ready.record(stream);
  lane.ready.make_wait(lane.stream);
  lane.line.queue(at, [&](ncclComm_t pair) { lane.line.check(call(pair), at); });
  lane.unrecorded = std::make_shared<Event>(device_);
  return Transfer(std::make_unique<Message>(lane, stream, lane.unrecorded, at));
}

Transfer NcclCommunicator::start_send(Stream& stream, Tensor tensor, int to) {
  if (!stream.on_cuda()) return host_->start_send(stream, tensor, to);
  comm::check_peer("send", *this, to);
  if (!has_work(stream, tensor)) return {};
  Lane& lane = lane_of(rank(), to, "send");
  return start(stream, lane, site("send", to), [&](ncclComm_t pair) {
    return ncclSend(tensor.data, count_of(tensor), type_of(tensor.dtype), to, pair,
                    queue_of(lane.stream));
  });
}

Transfer NcclCommunicator::start_receive(Stream& stream, Tensor tensor, int from) {
  if (!stream.on_cuda()) return host_->start_receive(stream, tensor, from);
  comm::check_peer("receive", *this, from);
  if (!has_work(stream, tensor)) return {};
  Lane& lane = lane_of(from, rank(), "receive");
  return start(stream, lane, site("receive", from), [&](ncclComm_t pair) {
    return ncclRecv(tensor.data, count_of(tensor), type_of(tensor.dtype), from, pair,
                    queue_of(lane.stream));
  });
}

}  // namespace trireme
