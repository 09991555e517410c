#include "parallel/comm/mpi_communicator.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "parallel/comm/mpi_transfer.h"
#include "parallel/comm/ordered_reduce.h"
#include "parallel/comm/polling_wait.h"
#include "parallel/comm/shapes.h"

namespace trireme {
namespace {

using Direction = comm::MpiTransfer::Direction;

// Messages of start_send use another tag than the exchanges of collectives.
constexpr int kMessageTag = 0;
constexpr int kCollectiveTag = 1;
// Below this size one all-gather of the whole tensors is faster than two exchanges.
constexpr std::size_t kSmallBytes = 16 * 1024;

// Abandons pending requests when an exchange fails half-way: `requests` holds the receives, then as
// many sends, which Open MPI cannot cancel.
class RequestGuard {
 public:
  explicit RequestGuard(std::vector<MPI_Request>& requests) : requests_(requests) {
    std::fill(requests_.begin(), requests_.end(), MPI_REQUEST_NULL);
  }
  RequestGuard(const RequestGuard&) = delete;
  RequestGuard& operator=(const RequestGuard&) = delete;
  ~RequestGuard() {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      if (i < requests_.size() / 2) MPI_Cancel(&requests_[i]);
      MPI_Request_free(&requests_[i]);
    }
  }

 private:
  std::vector<MPI_Request>& requests_;
};

}  // namespace

MpiCommunicator::MpiCommunicator(MPI_Comm mpi_comm, std::string name, std::size_t buffer_bytes)
    : comm_(mpi_comm), name_(std::move(name)), exceptions_(std::uncaught_exceptions()) {
  MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
  comm::check(MPI_Comm_rank(comm_, &rank_), site("rank"));
  comm::check(MPI_Comm_size(comm_, &size_), site("size"));
  const std::size_t ranks = static_cast<std::size_t>(size_);
  std::array<std::int64_t, 2> least{static_cast<std::int64_t>(buffer_bytes),
                                    -static_cast<std::int64_t>(buffer_bytes)};
  comm::check(MPI_Allreduce(MPI_IN_PLACE, least.data(), 2, MPI_INT64_T, MPI_MIN, comm_),
              site("making the group"));
  require(least[0] == -least[1], "group '", name_, "': ranks asked for buffers of ", least[0],
          " to ", -least[1], " bytes");
  require(buffer_bytes >= ranks * kLeastBufferBytes, "group '", name_, "': ", buffer_bytes,
          " bytes are not enough for ", size_, " ranks");
  buffer_ = Memory(buffer_bytes, Device{});
  requests_.resize(2 * (ranks - 1));
  contributions_.resize(ranks);
  counts_.resize(ranks);
  offsets_.resize(ranks);
}

MpiCommunicator::~MpiCommunicator() {
  if (std::uncaught_exceptions() == exceptions_) MPI_Comm_free(&comm_);
}

bool MpiCommunicator::has_work(const Stream& stream, const Tensor& tensor) const {
  require(!stream.on_cuda() && !tensor.device.is_cuda(), "group '", name_,
          "' moves tensors in host memory only");
  return stream.executes() && tensor.count() > 0;
}

std::int64_t MpiCommunicator::piece_of(DType dtype) const {
  const std::size_t held =
      buffer_.bytes() / size_of(dtype) / static_cast<std::size_t>(std::max(size_ - 1, 1));
  return std::min<std::int64_t>(static_cast<std::int64_t>(held),
                                std::numeric_limits<int>::max() / size_);
}

// Buffer slot of the contribution of `rank`, which is not this rank.
Tensor MpiCommunicator::buffered(int rank, std::int64_t count, DType dtype) const {
  const std::int64_t slot = rank < rank_ ? rank : rank - 1;
  const Tensor all{buffer_.data(), dtype, Shape{(size_ - 1) * count}, Device{}};
  return all.slice(slot * count, count);
}

// Sends outgoing(r) to, and receives incoming(r) from, every other rank r.
template <class Outgoing, class Incoming>
void MpiCommunicator::exchange(const char* call, const Outgoing& outgoing,
                               const Incoming& incoming) {
  const std::size_t others = static_cast<std::size_t>(size_ - 1);
  const auto peer_at = [this](std::size_t i) { return (rank_ + 1 + static_cast<int>(i)) % size_; };
  RequestGuard guard(requests_);
  for (std::size_t i = 0; i < others; ++i) {
    const Tensor to = incoming(peer_at(i));
    comm::check(
        MPI_Irecv(to.data, comm::mpi_count(to.count(), site(call)), comm::mpi_type_of(to.dtype),
                  peer_at(i), kCollectiveTag, comm_, &requests_[i]),
        site(call, peer_at(i)));
  }
  for (std::size_t i = 0; i < others; ++i) {
    const Tensor from = outgoing(peer_at(i));
    comm::check(MPI_Isend(from.data, comm::mpi_count(from.count(), site(call)),
                          comm::mpi_type_of(from.dtype), peer_at(i), kCollectiveTag, comm_,
                          &requests_[others + i]),
                site(call, peer_at(i)));
  }
  // One at a time: MPI_Waitall of Open MPI 4.1 spins forever if one message has failed and another
  // has not arrived.
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    const comm::CallSite at = site(call, peer_at(i % others));
    const comm::PollingWait wait;
    MPI_Status status;
    comm::check(MPI_Wait(&requests_[i], &status), at);
    if (i >= others) continue;
    const Tensor to = incoming(peer_at(i));
    comm::check_received(status, to.count(), to.dtype, at);
  }
}

// out = the ordered sum over ranks of their share_of(this rank). share_of(r) is this rank's
// contribution to rank r; `out` may be share_of(this rank).
template <class ShareOf>
void MpiCommunicator::reduce_own_share(const char* call, const ShareOf& share_of, const Tensor& out,
                                       Reduce reduce) {
  const auto incoming = [&](int from) { return buffered(from, out.count(), out.dtype); };
  exchange(call, share_of, incoming);
  for (int r = 0; r < size_; ++r) {
    contributions_[static_cast<std::size_t>(r)] = r == rank_ ? share_of(r).data : incoming(r).data;
  }
  comm::reduce_in_order(reduce, out.dtype, contributions_, out.data, out.count());
}

void MpiCommunicator::all_reduce_small(const Tensor& tensor, Reduce reduce) {
  const int count = static_cast<int>(tensor.count());
  const MPI_Datatype type = comm::mpi_type_of(tensor.dtype);
  const comm::PollingWait wait;
  comm::check(MPI_Allgather(tensor.data, count, type, buffer_.data(), count, type, comm_),
              site("all_reduce"));
  for (std::size_t r = 0; r < contributions_.size(); ++r) {
    contributions_[r] = buffer_.data() + r * tensor.bytes();
  }
  comm::reduce_in_order(reduce, tensor.dtype, contributions_, tensor.data, tensor.count());
}

void MpiCommunicator::all_reduce_piece(const Tensor& piece, Reduce reduce) {
  const auto begin_of = [&](int r) { return piece.count() * r / size_; };
  const auto share_of = [&](int r) {
    return piece.slice(begin_of(r), begin_of(r + 1) - begin_of(r));
  };
  reduce_own_share("all_reduce", share_of, share_of(rank_), reduce);
  for (int r = 0; r < size_; ++r) {
    counts_[static_cast<std::size_t>(r)] = static_cast<int>(share_of(r).count());
    offsets_[static_cast<std::size_t>(r)] = static_cast<int>(begin_of(r));
  }
  const comm::PollingWait wait;
  comm::check(MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, piece.data, counts_.data(),
                             offsets_.data(), comm::mpi_type_of(piece.dtype), comm_),
              site("all_reduce"));
}

void MpiCommunicator::all_reduce(Stream& stream, Tensor tensor, Reduce reduce) {
  if (!has_work(stream, tensor)) return;
  if (tensor.bytes() <= kSmallBytes &&
      tensor.bytes() * static_cast<std::size_t>(size_) <= buffer_.bytes()) {
    return all_reduce_small(tensor, reduce);
  }
  // The shards of a chunk differ by at most one element, and the longest must fit the buffer.
  const std::int64_t most = piece_of(tensor.dtype) * size_;
  for (std::int64_t first = 0; first < tensor.count(); first += most) {
    all_reduce_piece(tensor.slice(first, std::min(most, tensor.count() - first)), reduce);
  }
}

void MpiCommunicator::all_gather(Stream& stream, Tensor whole, Tensor part) {
  comm::check_parts("all_gather", *this, whole, part);
  if (!has_work(stream, part)) return;
  comm::check_places("all_gather", *this, whole, part);
  const bool in_place = part.data == comm::place_of(rank_, whole, part.count()).data;
  const int count = comm::mpi_count(part.count(), site("all_gather"));
  const MPI_Datatype type = comm::mpi_type_of(part.dtype);
  const comm::PollingWait wait;
  comm::check(MPI_Allgather(in_place ? MPI_IN_PLACE : part.data, count, type, whole.data, count,
                            type, comm_),
              site("all_gather"));
}

void MpiCommunicator::reduce_scatter(Stream& stream, Tensor part, Tensor whole) {
  comm::check_parts("reduce_scatter", *this, whole, part);
  if (!has_work(stream, part)) return;
  comm::check_places("reduce_scatter", *this, whole, part);
  const std::int64_t most = piece_of(part.dtype);
  for (std::int64_t first = 0; first < part.count(); first += most) {
    const std::int64_t count = std::min(most, part.count() - first);
    const auto share_of = [&](int r) { return whole.slice(r * part.count() + first, count); };
    reduce_own_share("reduce_scatter", share_of, part.slice(first, count), Reduce::kSum);
  }
}

void MpiCommunicator::all_to_all(Stream& stream, const RankBlocks& received,
                                 const RankBlocks& sent) {
  comm::check_blocks("all_to_all", *this, received, sent);
  // A rank without elements to send may receive some.
  if (!has_work(stream, sent.tensor) && !has_work(stream, received.tensor)) return;
  comm::check_apart("all_to_all", received, sent);
  const auto block_of = [this](const RankBlocks& blocks) {
    return [this, &blocks](int r) { return blocks.of(r, size_); };
  };
  const Tensor own = sent.of(rank_, size_);
  if (own.count() > 0) std::memcpy(received.of(rank_, size_).data, own.data, own.bytes());
  exchange("all_to_all", block_of(sent), block_of(received));
}

void MpiCommunicator::broadcast(Stream& stream, Tensor tensor, int root) {
  comm::check_root("broadcast", *this, root);
  if (!has_work(stream, tensor)) return;
  const comm::PollingWait wait;
  comm::check(MPI_Bcast(tensor.data, comm::mpi_count(tensor.count(), site("broadcast")),
                        comm::mpi_type_of(tensor.dtype), root, comm_),
              site("broadcast", root));
}

void MpiCommunicator::barrier(Stream& stream) {
  if (!stream.executes()) return;
  stream.synchronize();
  const comm::PollingWait wait;
  comm::check(MPI_Barrier(comm_), site("barrier"));
}

Transfer MpiCommunicator::start_send(Stream& stream, Tensor tensor, int to) {
  comm::check_peer("send", *this, to);
  if (!has_work(stream, tensor)) return {};
  const comm::CallSite at = site("send", to);
  MPI_Request request = MPI_REQUEST_NULL;
  comm::check(MPI_Isend(tensor.data, comm::mpi_count(tensor.count(), at),
                        comm::mpi_type_of(tensor.dtype), to, kMessageTag, comm_, &request),
              at);
  return Transfer(std::make_unique<comm::MpiTransfer>(Direction::kSend, request, tensor.count(),
                                                      tensor.dtype, at));
}

Transfer MpiCommunicator::start_receive(Stream& stream, Tensor tensor, int from) {
  comm::check_peer("receive", *this, from);
  if (!has_work(stream, tensor)) return {};
  const comm::CallSite at = site("receive", from);
  MPI_Request request = MPI_REQUEST_NULL;
  comm::check(MPI_Irecv(tensor.data, comm::mpi_count(tensor.count(), at),
                        comm::mpi_type_of(tensor.dtype), from, kMessageTag, comm_, &request),
              at);
  return Transfer(std::make_unique<comm::MpiTransfer>(Direction::kReceive, request, tensor.count(),
                                                      tensor.dtype, at));
}

}  // namespace trireme
