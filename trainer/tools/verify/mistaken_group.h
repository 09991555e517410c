#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/flight_recorder.h"

namespace trireme::verify {

// Wrong behavior of a call.
enum class GroupFault : std::uint8_t {
  kSkip,     // no communication
  kTwice,    // reduces the result again
  kMean,     // averages instead of summing
  kStale,    // returns the result of the first step
  kSwap,     // swaps the first and the last shard or received block
  kRepeat,   // sends the first message of a step again; in all_gather, of the last rank
  kInstead,  // reduces over Options::instead
  kModify,   // calls Options::modify or modify_blocks on the input or the output
};

// Selects calls of a group.
struct CallFilter {
  flight::Operation operation = flight::Operation::kNone;
  flight::Phase phase = flight::Phase::kStart;  // kStart: any
  int layer = -1;                               // -1: any
  int nth = -1;                                 // call within a layer and micro-batch; -1: all
  std::int64_t from_step = 1;
  std::optional<Reduce> reduce = std::nullopt;
};

// Wraps a group and makes some of its calls wrong, the same calls on all ranks.
class MistakenGroup final : public Communicator {
 public:
  struct Options {
    CallFilter calls;
    GroupFault fault = GroupFault::kSkip;
    // For kModify: of all_reduce and of the whole of all_gather, and of all_to_all.
    std::function<void(Stream&, Tensor)> modify = {};
    std::function<void(Stream&, const RankBlocks& received, const RankBlocks& sent)> modify_blocks =
        {};
    bool modify_before = false;       // modifies the input of all_reduce instead of its output
    Communicator* instead = nullptr;  // for kInstead: another group, of all_reduce
    std::function<void()> made = {};  // called for each wrong call
  };
  // The ledger is this rank's and must outlive the group.
  MistakenGroup(std::unique_ptr<Communicator> right, const FlightRecorder& recorder,
                Options options)
      : right_(std::move(right)), recorder_(recorder), options_(std::move(options)) {}

  int rank() const override { return right_->rank(); }
  int size() const override { return right_->size(); }
  std::size_t buffer_bytes() const override { return right_->buffer_bytes(); }
  bool is_async() const override { return right_->is_async(); }
  void all_reduce(Stream& stream, Tensor tensor, Reduce reduce) override;
  void all_gather(Stream& stream, Tensor whole, Tensor part) override;
  void reduce_scatter(Stream& stream, Tensor part, Tensor whole) override;
  void all_to_all(Stream& stream, const RankBlocks& received, const RankBlocks& sent) override;
  void broadcast(Stream& stream, Tensor tensor, int root) override {
    right_->broadcast(stream, tensor, root);
  }
  void barrier(Stream& stream) override { right_->barrier(stream); }
  Transfer start_all_reduce(Stream& stream, Tensor tensor, Reduce reduce) override;
  Transfer start_all_gather(Stream& stream, Tensor whole, Tensor part) override;
  Transfer start_reduce_scatter(Stream& stream, Tensor part, Tensor whole) override;
  Transfer start_send(Stream& stream, Tensor tensor, int to) override;
  Transfer start_receive(Stream& stream, Tensor tensor, int from) override {
    return right_->start_receive(stream, tensor, from);
  }

 private:
  bool matches(const Stream& stream, flight::Operation operation,
               std::optional<Reduce> reduce = std::nullopt);
  static void swap_ends(Stream& stream, Tensor whole, std::size_t bytes);
  void repeat(Stream& stream, Tensor tensor, flight::Operation operation);
  void scale(Stream& stream, Tensor tensor, double factor) const;

  std::unique_ptr<Communicator> right_;
  const FlightRecorder& recorder_;
  Options options_;
  flight::Progress counted_;  // position that nth_ counts in
  int nth_ = 0;
  std::map<const std::byte*, std::vector<std::byte>> old_;  // results of the first step, by shard
  std::vector<std::byte> sent_;                             // first message of the step
  std::int64_t sent_in_ = 0;
};

}  // namespace trireme::verify
