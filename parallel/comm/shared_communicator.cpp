#include "parallel/comm/shared_communicator.h"

#include <cstring>
#include <utility>

#include "model/base/error.h"
#include "model/device/cpu/threads.h"
#include "parallel/comm/ordered_reduce.h"
#include "parallel/comm/shapes.h"

namespace trireme {
namespace {

enum class Kind : std::uint32_t {
  kAllReduce = 1,
  kAllGather = 2,
  kReduceScatter = 3,
  kAllToAll = 4
};

std::uint32_t what_of(Kind kind, Reduce reduce, DType dtype) {
  return static_cast<std::uint32_t>(kind) << 16 | static_cast<std::uint32_t>(reduce) << 8 |
         static_cast<std::uint32_t>(dtype);
}

void copy_beside(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::int64_t kGrain = 1 << 20;
  cpu::parallel_for(static_cast<std::int64_t>(bytes), kGrain,
                    [&](std::int64_t first, std::int64_t last) {
                      std::memcpy(to + first, from + first, static_cast<std::size_t>(last - first));
                    });
}

}  // namespace

SharedCommunicator::SharedCommunicator(std::unique_ptr<Communicator> other,
                                       std::unique_ptr<SharedMemory> pages,
                                       const comm::SharedMemories& memories,
                                       std::vector<int> local_ranks, std::string name)
    : other_(std::move(other)),
      memories_(memories),
      local_ranks_(std::move(local_ranks)),
      name_(std::move(name)),
      barrier_(std::move(pages), other_->rank()),
      theirs_(local_ranks_.size()),
      contributions_(local_ranks_.size()),
      worker_([this] { barrier_.give_up(); }) {}

SharedCommunicator::~SharedCommunicator() {
  barrier_.give_up();
}

std::optional<SharedCommunicator::Place> SharedCommunicator::shared(const Stream& stream,
                                                                    const Tensor& tensor) const {
  if (!stream.executes() || tensor.device.is_cuda() || tensor.count() == 0) return std::nullopt;
  return memories_.find(tensor.data, tensor.bytes());
}

std::optional<SharedCommunicator::Place> SharedCommunicator::shared_part(const Stream& stream,
                                                                         const Tensor& whole,
                                                                         const Tensor& part) const {
  const std::optional<Place> place = shared(stream, comm::place_of(rank(), whole, part.count()));
  return place ? place : shared(stream, part);
}

void SharedCommunicator::settle(const Stream& stream) {
  if (stream.executes()) worker_.drain();
}

std::byte* SharedCommunicator::published_by(int rank, std::uint32_t what, std::size_t bytes) const {
  const comm::SharedBarrier::Call& call = barrier_.shown_by(rank);
  if (call.what != what) return nullptr;
  return memories_.at(call.place, local_ranks_[static_cast<std::size_t>(rank)], bytes);
}

void SharedCommunicator::refuse(const char* call, int rank, std::int64_t count) const {
  throw PeerError(
      say(call, " in group '", name_, "', rank ", this->rank(), " of ", size(), ", over ", count,
          " elements: rank ", rank,
          " runs another operation, or shares other memory: the ranks are out of step"));
}

void SharedCommunicator::meet_with(const char* call, std::uint32_t what, const Tensor& tensor,
                                   const Place& place) {
  const comm::SharedBarrier::Call own{
      .what = what, .unused = 0, .count = tensor.count(), .place = place};
  barrier_.show(own);
  barrier_.meet();
  for (int r = 0; r < size(); ++r) {
    std::byte*& found = theirs_[static_cast<std::size_t>(r)];
    found = published_by(r, what, tensor.bytes());
    if (!found || barrier_.shown_by(r).count != own.count) refuse(call, r, own.count);
  }
}

void SharedCommunicator::reduce_part(const Tensor& part, const Tensor& whole, const Place& place) {
  meet_with("reduce_scatter", what_of(Kind::kReduceScatter, Reduce::kSum, whole.dtype), whole,
            place);
  for (std::size_t r = 0; r < theirs_.size(); ++r) {
    contributions_[r] = theirs_[r] + static_cast<std::size_t>(rank()) * part.bytes();
  }
  comm::reduce_in_order(Reduce::kSum, part.dtype, contributions_, part.data, part.count());
  barrier_.meet();
}

void SharedCommunicator::gather_parts(const Tensor& whole, const Tensor& part, const Place& place) {
  const std::byte* const own = comm::place_of(rank(), whole, part.count()).data;
  if (part.data != own)
    copy_beside(comm::place_of(rank(), whole, part.count()).data, part.data, part.bytes());
  meet_with("all_gather", what_of(Kind::kAllGather, Reduce::kSum, part.dtype), part, place);
  for (int step = 1; step < size(); ++step) {
    const int r = (rank() + step) % size();
    copy_beside(comm::place_of(r, whole, part.count()).data, theirs_[static_cast<std::size_t>(r)],
                part.bytes());
  }
  barrier_.meet();
}

// Each rank leaves the sum of its shard in its own tensor, where no other rank reads that shard.
void SharedCommunicator::reduce_all(const Tensor& tensor, Reduce reduce, const Place& place) {
  meet_with("all_reduce", what_of(Kind::kAllReduce, reduce, tensor.dtype), tensor, place);
  const auto begin_of = [&](int r) { return tensor.count() * r / size(); };
  const auto share_of = [&](int r) {
    return tensor.slice(begin_of(r), begin_of(r + 1) - begin_of(r));
  };
  const Tensor own = share_of(rank());
  const auto offset_of = [&](const Tensor& share) { return share.data - tensor.data; };
  for (std::size_t r = 0; r < theirs_.size(); ++r) contributions_[r] = theirs_[r] + offset_of(own);
  comm::reduce_in_order(reduce, own.dtype, contributions_, own.data, own.count());
  barrier_.meet();
  for (int step = 1; step < size(); ++step) {
    const int r = (rank() + step) % size();
    const Tensor share = share_of(r);
    copy_beside(share.data, theirs_[static_cast<std::size_t>(r)] + offset_of(share), share.bytes());
  }
  barrier_.meet();
}

void SharedCommunicator::exchange_blocks(const RankBlocks& received, const RankBlocks& sent,
                                         const Place& place) {
  const std::span<comm::SharedBarrier::Block> own = barrier_.blocks_of(rank());
  for (int r = 0; r < size(); ++r) {
    const Tensor block = sent.of(r, size());
    own[static_cast<std::size_t>(r)] = {
        .first = (block.data - sent.tensor.data) / static_cast<std::int64_t>(size_of(block.dtype)),
        .count = block.count()};
  }
  const std::uint32_t what = what_of(Kind::kAllToAll, Reduce::kSum, sent.tensor.dtype);
  barrier_.show({.what = what, .unused = 0, .count = 0, .place = place});
  barrier_.meet();
  for (int step = 0; step < size(); ++step) {
    const int r = (rank() + step) % size();
    const Tensor to = received.of(r, size());
    const comm::SharedBarrier::Block& block =
        barrier_.blocks_of(r)[static_cast<std::size_t>(rank())];
    const std::size_t offset = static_cast<std::size_t>(block.first) * size_of(to.dtype);
    const std::byte* const theirs = published_by(r, what, offset + to.bytes());
    if (!theirs || block.count != to.count()) refuse("all_to_all", r, to.count());
    copy_beside(to.data, theirs + offset, to.bytes());
  }
  barrier_.meet();
}

void SharedCommunicator::all_reduce(Stream& stream, Tensor tensor, Reduce reduce) {
  settle(stream);
  const std::optional<Place> place = shared(stream, tensor);
  if (!place) return other_->all_reduce(stream, tensor, reduce);
  reduce_all(tensor, reduce, *place);
}

void SharedCommunicator::all_gather(Stream& stream, Tensor whole, Tensor part) {
  settle(stream);
  comm::check_parts("all_gather", *this, whole, part);
  const std::optional<Place> place = shared_part(stream, whole, part);
  if (!place) return other_->all_gather(stream, whole, part);
  comm::check_places("all_gather", *this, whole, part);
  gather_parts(whole, part, *place);
}

void SharedCommunicator::reduce_scatter(Stream& stream, Tensor part, Tensor whole) {
  settle(stream);
  comm::check_parts("reduce_scatter", *this, whole, part);
  const std::optional<Place> place = shared(stream, whole);
  if (!place) return other_->reduce_scatter(stream, part, whole);
  comm::check_places("reduce_scatter", *this, whole, part);
  reduce_part(part, whole, *place);
}

void SharedCommunicator::all_to_all(Stream& stream, const RankBlocks& received,
                                    const RankBlocks& sent) {
  settle(stream);
  const Tensor& tensor = sent.tensor;
  const bool may_share = stream.executes() && !tensor.device.is_cuda();
  const std::optional<Place> place =
      may_share ? memories_.find(tensor.data, tensor.bytes()) : std::nullopt;
  if (!place) return other_->all_to_all(stream, received, sent);
  comm::check_blocks("all_to_all", *this, received, sent);
  comm::check_apart("all_to_all", received, sent);
  exchange_blocks(received, sent, *place);
}

void SharedCommunicator::broadcast(Stream& stream, Tensor tensor, int root) {
  settle(stream);
  other_->broadcast(stream, tensor, root);
}

void SharedCommunicator::barrier(Stream& stream) {
  settle(stream);
  other_->barrier(stream);
}

Transfer SharedCommunicator::start_all_reduce(Stream& stream, Tensor tensor, Reduce reduce) {
  const std::optional<Place> place = shared(stream, tensor);
  if (!place) return Communicator::start_all_reduce(stream, tensor, reduce);
  return worker_.start([this, tensor, reduce, place] { reduce_all(tensor, reduce, *place); });
}

Transfer SharedCommunicator::start_all_gather(Stream& stream, Tensor whole, Tensor part) {
  comm::check_parts("all_gather", *this, whole, part);
  const std::optional<Place> place = shared_part(stream, whole, part);
  if (!place) return Communicator::start_all_gather(stream, whole, part);
  comm::check_places("all_gather", *this, whole, part);
  return worker_.start([this, whole, part, place] { gather_parts(whole, part, *place); });
}

Transfer SharedCommunicator::start_reduce_scatter(Stream& stream, Tensor part, Tensor whole) {
  comm::check_parts("reduce_scatter", *this, whole, part);
  const std::optional<Place> place = shared(stream, whole);
  if (!place) return Communicator::start_reduce_scatter(stream, part, whole);
  comm::check_places("reduce_scatter", *this, whole, part);
  return worker_.start([this, part, whole, place] { reduce_part(part, whole, *place); });
}

}  // namespace trireme
