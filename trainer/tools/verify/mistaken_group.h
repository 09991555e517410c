#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/ledger.h"

namespace trireme::verify {

// What a group does instead of what it is asked for.
enum class Deed : std::uint8_t {
  kSkip,    // each rank keeps what it has
  kTwice,   // the sum is made again of the sums
  kMean,    // the sum is divided by the ranks
  kOld,     // what came in the first step comes again
  kSwap,    // the first and the last part change places
  kRepeat,  // the first message of a step is sent again instead of the later ones
  kMore,    // something is added to what it is given, or gives
};

// Which of its calls.
struct Calls {
  ledger::Operation operation = ledger::Operation::kNone;
  ledger::Phase phase = ledger::Phase::kStart;
  int layer = -1;  // -1: any
  int nth = -1;    // within a micro-batch's visit to the layer; -1: all
  std::int64_t from_step = 1;
  std::optional<Reduce> reduce = std::nullopt;
};

// Another group, that does some of its calls wrongly. All its ranks do so in the same calls.
class MistakenGroup final : public Communicator {
 public:
  struct Options {
    Calls calls;
    Deed deed = Deed::kSkip;
    std::function<void(Stream&, Tensor)> more = {};  // of kMore, for an all_reduce:
    bool more_before = false;                        // what it is given
    std::function<void()> made = {};                 // told of each
  };
  // The ledger, of this rank, outlives the group.
  MistakenGroup(std::unique_ptr<Communicator> right, const Ledger& ledger, Options options)
      : right_(std::move(right)), ledger_(ledger), options_(std::move(options)) {}

  int rank() const override { return right_->rank(); }
  int size() const override { return right_->size(); }
  std::size_t buffer_bytes() const override { return right_->buffer_bytes(); }
  bool works_beside() const override { return right_->works_beside(); }
  void all_reduce(Stream& stream, Tensor tensor, Reduce reduce) override;
  void all_gather(Stream& stream, Tensor whole, Tensor part) override;
  void reduce_scatter(Stream& stream, Tensor part, Tensor whole) override;
  void all_to_all(Stream& stream, Tensor received, Tensor sent) override {
    right_->all_to_all(stream, received, sent);
  }
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
  bool is_one(const Stream& stream, ledger::Operation operation,
              std::optional<Reduce> reduce = std::nullopt);
  void scale(Stream& stream, Tensor tensor, double factor) const;

  std::unique_ptr<Communicator> right_;
  const Ledger& ledger_;
  Options options_;
  ledger::Progress counted_;  // where nth_ counts
  int nth_ = 0;
  std::map<const std::byte*, std::vector<std::byte>> old_;  // of the first step, by part
  std::vector<std::byte> sent_;                             // first in the step
  std::int64_t sent_in_ = 0;
};

}  // namespace trireme::verify
