#include "parallel/comm/staged_communicator.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>
#include <vector>

#include "model/device/copy.h"
#include "parallel/comm/shapes.h"

namespace trireme {
namespace {

void copy(Stream& stream, const Tensor& to, const Tensor& from) {
  if (from.count() > 0) copy_bytes(stream, to.data, from.data, from.bytes());
}

}  // namespace

// The sizes of blocks that are sent or received in pieces.
class StagedCommunicator::BlockCounts {
 public:
  BlockCounts(const RankBlocks& blocks, int ranks) {
    for (int r = 0; r < ranks; ++r) counts_.push_back(blocks.of(r, ranks).count());
    within_ = counts_;
  }
  std::int64_t most() const { return *std::max_element(counts_.begin(), counts_.end()); }
  // Of each block, how many of the elements [first, first + n) it has.
  std::span<const std::int64_t> within(std::int64_t first, std::int64_t n) {
    std::transform(counts_.begin(), counts_.end(), within_.begin(), [&](std::int64_t count) {
      return std::clamp<std::int64_t>(count - first, 0, n);
    });
    return within_;
  }
  std::int64_t begin(int rank, std::int64_t first) const {
    return std::min(first, counts_[static_cast<std::size_t>(rank)]);
  }

 private:
  std::vector<std::int64_t> counts_, within_;
};

// A pending message in its slot. An abandoned message keeps the slot, since MPI may still use it.
class StagedCommunicator::Message final : public Transfer::Pending {
 public:
  Message(Slot& slot, Transfer inner, Stream& stream, Tensor received)
      : slot_(slot), inner_(std::move(inner)), stream_(stream), received_(received) {}
  void wait() override {
    inner_.wait();
    if (received_) {
      copy_bytes(stream_, received_.data, slot_.memory.data(), received_.bytes());
      slot_.emptied.record(stream_);
    }
    slot_.taken = false;
  }

 private:
  Slot& slot_;
  Transfer inner_;
  Stream& stream_;
  Tensor received_;  // empty at the sender
};

StagedCommunicator::StagedCommunicator(std::unique_ptr<Communicator> host, Device device,
                                       std::size_t buffer_bytes)
    : host_(std::move(host)),
      device_(device),
      buffer_(Memory::pinned(buffer_bytes, device)),
      emptied_(device) {
  require(buffer_bytes >= static_cast<std::size_t>(size()) * kLeastBufferBytes, buffer_bytes,
          " bytes are not enough for ", size(), " ranks");
}

std::int64_t StagedCommunicator::piece_of(DType dtype, std::int64_t parts) const {
  return static_cast<std::int64_t>(buffer_.bytes() / size_of(dtype)) / parts;
}

Tensor StagedCommunicator::buffer(DType dtype, std::int64_t count) const {
  return {buffer_.data(), dtype, Shape{count}, Device{}};
}

// Calls work(first, n) for chunks [first, first + n) that cover `count`, at most `most` elements
// each; a chunk has the whole buffer.
template <class Work>
void StagedCommunicator::in_pieces(Stream& stream, std::int64_t count, std::int64_t most,
                                   const Work& work) {
  if (!stream.executes()) return;
  for (std::int64_t first = 0; first < count; first += most) {
    emptied_.synchronize();
    work(first, std::min(most, count - first));
    emptied_.record(stream);
  }
}

void StagedCommunicator::all_reduce(Stream& stream, Tensor tensor, Reduce reduce) {
  if (is_host(stream)) return host_->all_reduce(stream, tensor, reduce);
  const auto work = [&](std::int64_t first, std::int64_t n) {
    const Tensor here = buffer(tensor.dtype, n), there = tensor.slice(first, n);
    copy(stream, here, there);
    stream.synchronize();
    host_->all_reduce(host_stream_, here, reduce);
    copy(stream, there, here);
  };
  in_pieces(stream, tensor.count(), piece_of(tensor.dtype, 1), work);
}

void StagedCommunicator::all_gather(Stream& stream, Tensor whole, Tensor part) {
  if (is_host(stream)) return host_->all_gather(stream, whole, part);
  comm::check_parts("all_gather", *this, whole, part);
  if (stream.executes()) comm::check_places("all_gather", *this, whole, part);
  const auto work = [&](std::int64_t first, std::int64_t n) {
    const Tensor all = buffer(part.dtype, n * size());
    const Tensor own = comm::place_of(rank(), all, n);
    copy(stream, own, part.slice(first, n));
    stream.synchronize();
    host_->all_gather(host_stream_, all, own);
    for (int r = 0; r < size(); ++r) {
      copy(stream, whole.slice(r * part.count() + first, n), comm::place_of(r, all, n));
    }
  };
  in_pieces(stream, part.count(), piece_of(part.dtype, size()), work);
}

void StagedCommunicator::reduce_scatter(Stream& stream, Tensor part, Tensor whole) {
  if (is_host(stream)) return host_->reduce_scatter(stream, part, whole);
  comm::check_parts("reduce_scatter", *this, whole, part);
  if (stream.executes()) comm::check_places("reduce_scatter", *this, whole, part);
  const auto work = [&](std::int64_t first, std::int64_t n) {
    const Tensor all = buffer(part.dtype, n * size());
    const Tensor own = comm::place_of(rank(), all, n);
    for (int r = 0; r < size(); ++r) {
      copy(stream, comm::place_of(r, all, n), whole.slice(r * part.count() + first, n));
    }
    stream.synchronize();
    host_->reduce_scatter(host_stream_, own, all);
    copy(stream, part.slice(first, n), own);
  };
  in_pieces(stream, part.count(), piece_of(part.dtype, size()), work);
}

void StagedCommunicator::all_to_all(Stream& stream, const RankBlocks& received,
                                    const RankBlocks& sent) {
  if (is_host(stream)) return host_->all_to_all(stream, received, sent);
  comm::check_blocks("all_to_all", *this, received, sent);
  if (!stream.executes()) return;
  comm::check_apart("all_to_all", received, sent);
  const std::int64_t piece = piece_of(sent.tensor.dtype, 2 * size());
  BlockCounts incoming(received, size()), outgoing(sent, size());
  const auto work = [&](std::int64_t first, std::int64_t n) {
    const Tensor out = buffer(sent.tensor.dtype, 2 * n * size()).slice(0, n * size()),
                 in = buffer(sent.tensor.dtype, 2 * n * size()).slice(n * size(), n * size());
    const RankBlocks from(out, outgoing.within(first, n)), to(in, incoming.within(first, n));
    for (int r = 0; r < size(); ++r) {
      const Tensor part = from.of(r, size());
      copy(stream, part, sent.of(r, size()).slice(outgoing.begin(r, first), part.count()));
    }
    stream.synchronize();
    host_->all_to_all(host_stream_, to, from);
    for (int r = 0; r < size(); ++r) {
      const Tensor part = to.of(r, size());
      copy(stream, received.of(r, size()).slice(incoming.begin(r, first), part.count()), part);
    }
  };
  const bool are_equal = sent.counts.empty();
  in_pieces(stream, are_equal ? outgoing.most() : longest_block(outgoing), piece, work);
}

// Over all ranks, which must agree on the number of pieces.
std::int64_t StagedCommunicator::longest_block(const BlockCounts& outgoing) {
  double most = static_cast<double>(outgoing.most());
  host_->all_reduce(host_stream_, {reinterpret_cast<std::byte*>(&most), DType::kF64, Shape{1}, {}},
                    Reduce::kMax);
  return static_cast<std::int64_t>(most);
}

void StagedCommunicator::broadcast(Stream& stream, Tensor tensor, int root) {
  if (is_host(stream)) return host_->broadcast(stream, tensor, root);
  comm::check_root("broadcast", *this, root);
  const auto work = [&](std::int64_t first, std::int64_t n) {
    const Tensor here = buffer(tensor.dtype, n), there = tensor.slice(first, n);
    if (rank() == root) {
      copy(stream, here, there);
      stream.synchronize();
    }
    host_->broadcast(host_stream_, here, root);
    if (rank() != root) copy(stream, there, here);
  };
  in_pieces(stream, tensor.count(), piece_of(tensor.dtype, 1), work);
}

void StagedCommunicator::barrier(Stream& stream) {
  if (!stream.executes()) return;
  stream.synchronize();
  host_->barrier(host_stream_);
}

StagedCommunicator::Slot& StagedCommunicator::take_slot(std::size_t bytes) {
  for (Slot& slot : slots_) {
    if (slot.taken || slot.memory.bytes() < bytes) continue;
    slot.emptied.synchronize();
    slot.taken = true;
    return slot;
  }
  Slot& slot = slots_.emplace_back(std::bit_ceil(bytes), device_);
  slot.taken = true;
  return slot;
}

Transfer StagedCommunicator::start_send(Stream& stream, Tensor tensor, int to) {
  if (is_host(stream)) return host_->start_send(stream, tensor, to);
  comm::check_peer("send", *this, to);
  if (!stream.executes() || tensor.count() == 0) return {};
  Slot& slot = take_slot(tensor.bytes());
  const Tensor here{slot.memory.data(), tensor.dtype, tensor.shape, Device{}};
  copy(stream, here, tensor);
  stream.synchronize();
  Transfer inner = host_->start_send(host_stream_, here, to);
  return Transfer(std::make_unique<Message>(slot, std::move(inner), stream, Tensor{}));
}

Transfer StagedCommunicator::start_receive(Stream& stream, Tensor tensor, int from) {
  if (is_host(stream)) return host_->start_receive(stream, tensor, from);
  comm::check_peer("receive", *this, from);
  if (!stream.executes() || tensor.count() == 0) return {};
  Slot& slot = take_slot(tensor.bytes());
  const Tensor here{slot.memory.data(), tensor.dtype, tensor.shape, Device{}};
  Transfer inner = host_->start_receive(host_stream_, here, from);
  return Transfer(std::make_unique<Message>(slot, std::move(inner), stream, tensor));
}

}  // namespace trireme
