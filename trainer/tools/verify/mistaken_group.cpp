#include "trainer/tools/verify/mistaken_group.h"

#include <algorithm>

#include "model/device/copy.h"
#include "model/ops/elementwise.h"
#include "trainer/tools/verify/elements.h"

namespace trireme::verify {

using flight::Operation;

bool MistakenGroup::matches(const Stream& stream, Operation operation,
                            std::optional<Reduce> reduce) {
  const CallFilter& calls = options_.calls;
  if (!stream.executes() || operation != calls.operation) return false;
  const flight::Progress now = recorder_.page().progress;
  const auto place = [](const flight::Progress& p) {
    return std::tuple(p.step, p.phase, p.micro_batch, p.layer);
  };
  if (place(now) != place(counted_)) nth_ = 0;
  counted_ = now;
  const int nth = nth_++;
  const bool any_phase = calls.phase == flight::Phase::kStart;
  const bool matched = (any_phase || now.phase == static_cast<std::uint32_t>(calls.phase)) &&
                       (calls.layer < 0 || calls.layer == now.layer) &&
                       (calls.nth < 0 || calls.nth == nth) && now.step >= calls.from_step &&
                       (!calls.reduce || calls.reduce == reduce);
  if (matched && options_.made) options_.made();
  return matched;
}

void MistakenGroup::scale(Stream& stream, Tensor tensor, double factor) const {
  std::vector<float> values;
  for (const double value : read_elements(stream, tensor)) {
    values.push_back(static_cast<float>(value * factor));
  }
  write_elements(stream, tensor, values);
}

// Swaps the first and the last block of so many bytes.
void MistakenGroup::swap_ends(Stream& stream, Tensor whole, std::size_t bytes) {
  const std::size_t last = whole.bytes() - bytes;
  std::vector<std::byte> all(whole.bytes());
  copy_bytes(stream, all.data(), whole.data, all.size());
  stream.synchronize();
  std::swap_ranges(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(bytes),
                   all.begin() + static_cast<std::ptrdiff_t>(last));
  copy_bytes(stream, whole.data, all.data(), all.size());
  stream.synchronize();
}

// Replaces what this rank sends by what it sent first in the step.
void MistakenGroup::repeat(Stream& stream, Tensor tensor, Operation operation) {
  const flight::Progress now = recorder_.page().progress;
  if (!stream.executes() || now.phase != static_cast<std::uint32_t>(options_.calls.phase)) return;
  if (sent_in_ != now.step) {
    sent_in_ = now.step;
    sent_.resize(tensor.bytes());
    copy_bytes(stream, sent_.data(), tensor.data, sent_.size());
    stream.synchronize();
  } else if (matches(stream, operation)) {
    copy_bytes(stream, tensor.data, sent_.data(), sent_.size());
    stream.synchronize();
  }
}

void MistakenGroup::all_reduce(Stream& stream, Tensor tensor, Reduce reduce) {
  if (!matches(stream, Operation::kAllReduce, reduce)) {
    return right_->all_reduce(stream, tensor, reduce);
  }
  switch (options_.fault) {
    case GroupFault::kSkip:
      return;
    case GroupFault::kTwice:
      right_->all_reduce(stream, tensor, reduce);
      return right_->all_reduce(stream, tensor, reduce);
    case GroupFault::kInstead:
      return options_.instead->all_reduce(stream, tensor, reduce);
    case GroupFault::kMean:
      right_->all_reduce(stream, tensor, reduce);
      return scale(stream, tensor, 1.0 / size());
    case GroupFault::kModify:
      if (options_.modify_before) options_.modify(stream, tensor);
      right_->all_reduce(stream, tensor, reduce);
      if (!options_.modify_before) options_.modify(stream, tensor);
      return;
    default:
      throw Error("unsupported fault of all_reduce");
  }
}

void MistakenGroup::all_gather(Stream& stream, Tensor whole, Tensor part) {
  if (options_.fault == GroupFault::kStale && stream.executes()) {
    right_->all_gather(stream, whole, part);
    std::vector<std::byte>& old = old_[part.data];
    const bool is_second = old_.size() > 1 && part.data == std::next(old_.begin())->first;
    if (recorder_.page().progress.step <= 1) {
      old.resize(whole.bytes());
      copy_bytes(stream, old.data(), whole.data, old.size());
      stream.synchronize();
    } else if (is_second && matches(stream, Operation::kAllGather)) {
      copy_bytes(stream, whole.data, old.data(), old.size());
      stream.synchronize();
    }
    return;
  }
  if (options_.fault == GroupFault::kRepeat) {
    if (rank() == size() - 1) repeat(stream, part, Operation::kAllGather);
    return right_->all_gather(stream, whole, part);
  }
  if (!matches(stream, Operation::kAllGather)) return right_->all_gather(stream, whole, part);
  const Tensor place = whole.slice(rank() * part.count(), part.count());
  if (options_.fault == GroupFault::kSkip) {
    if (place.data != part.data) copy_bytes(stream, place.data, part.data, part.bytes());
    return;
  }
  right_->all_gather(stream, whole, part);
  if (options_.fault == GroupFault::kModify) return options_.modify(stream, whole);
  require(options_.fault == GroupFault::kSwap, "unsupported fault of all_gather");
  swap_ends(stream, whole, part.bytes());
}

void MistakenGroup::reduce_scatter(Stream& stream, Tensor part, Tensor whole) {
  if (!matches(stream, Operation::kReduceScatter)) {
    return right_->reduce_scatter(stream, part, whole);
  }
  if (options_.fault == GroupFault::kSkip) {
    const Tensor place = whole.slice(rank() * part.count(), part.count());
    if (place.data != part.data) copy_bytes(stream, part.data, place.data, part.bytes());
    return;
  }
  right_->reduce_scatter(stream, part, whole);
  scale(stream, part, options_.fault == GroupFault::kMean ? 1.0 / size() : size());
}

void MistakenGroup::all_to_all(Stream& stream, const RankBlocks& received, const RankBlocks& sent) {
  right_->all_to_all(stream, received, sent);
  if (!matches(stream, Operation::kAllToAll)) return;
  if (options_.fault == GroupFault::kModify) {
    return options_.modify_blocks(stream, received, sent);
  }
  require(options_.fault == GroupFault::kSwap, "unsupported fault of all_to_all");
  swap_ends(stream, received.tensor, received.of(0, size()).bytes());
}

Transfer MistakenGroup::start_all_reduce(Stream& stream, Tensor tensor, Reduce reduce) {
  if (options_.calls.operation != Operation::kAllReduce) {
    return right_->start_all_reduce(stream, tensor, reduce);
  }
  all_reduce(stream, tensor, reduce);
  return {};
}

Transfer MistakenGroup::start_all_gather(Stream& stream, Tensor whole, Tensor part) {
  if (options_.calls.operation != Operation::kAllGather) {
    return right_->start_all_gather(stream, whole, part);
  }
  all_gather(stream, whole, part);
  return {};
}

Transfer MistakenGroup::start_reduce_scatter(Stream& stream, Tensor part, Tensor whole) {
  if (options_.calls.operation != Operation::kReduceScatter) {
    return right_->start_reduce_scatter(stream, part, whole);
  }
  reduce_scatter(stream, part, whole);
  return {};
}

Transfer MistakenGroup::start_send(Stream& stream, Tensor tensor, int to) {
  if (options_.fault == GroupFault::kRepeat) repeat(stream, tensor, Operation::kSend);
  return right_->start_send(stream, tensor, to);
}

}  // namespace trireme::verify
