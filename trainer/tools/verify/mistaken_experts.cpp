#include "trainer/tools/verify/mistakes.h"

#include <algorithm>

#include "model/device/copy.h"
#include "trainer/engine/engine.h"
#include "trainer/tools/verify/elements.h"
#include "trainer/tools/verify/mistaken_group.h"
#include "trainer/tools/verify/subject.h"

namespace trireme::verify {
namespace {

using flight::Operation;
using flight::Phase;

constexpr int kMistakenLayer = 1;

// A mistake in the exchange of one layer's rows.
class ExchangeMistake : public Mistake {
 public:
  ExchangeMistake(Operation operation, Phase phase) : operation_(operation), phase_(phase) {}
  void make_in(RankGroups& groups) override {
    if (!groups.expert) return;
    ranks_ = groups.expert->size();
    groups.expert = std::make_unique<MistakenGroup>(
        std::move(groups.expert), *groups.recorder,
        MistakenGroup::Options{
            .calls = {.operation = operation_, .phase = phase_, .layer = kMistakenLayer},
            .fault = GroupFault::kModify,
            .modify = [this](Stream& stream, Tensor whole) { in_gathered(stream, whole); },
            .modify_blocks =
                [this](Stream& stream, const RankBlocks& received, const RankBlocks& sent) {
                  in_exchanged(stream, received, sent);
                }});
  }

 protected:
  virtual void in_gathered(Stream& /*stream*/, Tensor /*whole*/) {}
  virtual void in_exchanged(Stream& /*stream*/, const RankBlocks& /*received*/,
                            const RankBlocks& /*sent*/) {}
  // Rows that come back have places among all rows of a rank, rows that arrive follow each other.
  static bool comes_back(const RankBlocks& received) { return !received.starts.empty(); }
  template <class Visit>
  void each_block(const RankBlocks& received, const Visit& visit) const {
    for (int rank = 0; rank < ranks_; ++rank) {
      const Tensor block = received.of(rank, ranks_);
      if (block.count() > 0) visit(rank, block);
    }
  }

 private:
  Operation operation_;
  Phase phase_;
  int ranks_ = 1;
};

// The rows of each rank's second expert begin one row too early, in those of the first.
class ShiftedExpert final : public ExchangeMistake {
 public:
  ShiftedExpert() : ExchangeMistake(Operation::kAllGather, Phase::kForward) {}

 private:
  // counts [ranks, experts], which all ranks change alike.
  void in_gathered(Stream& stream, Tensor counts) override {
    const std::vector<double> before = read_elements(stream, counts);
    std::vector<float> after(before.begin(), before.end());
    const auto experts = static_cast<std::size_t>(counts.width());
    for (std::size_t first = 0; first + 1 < after.size(); first += experts) {
      if (after[first] == 0) continue;
      after[first] -= 1;
      after[first + 1] += 1;
      note_made();
    }
    write_elements(stream, counts, after);
  }
};

// Each row that comes back from a rank's experts takes the place of the row before it.
class MisplacedExpertRows final : public ExchangeMistake {
 public:
  MisplacedExpertRows() : ExchangeMistake(Operation::kAllToAll, Phase::kForward) {}

 private:
  void in_exchanged(Stream& stream, const RankBlocks& received, const RankBlocks&) override {
    if (!comes_back(received)) return;
    const std::size_t row = received.tensor.row_slice(0, 1).bytes();
    each_block(received, [&](int /*rank*/, const Tensor& block) {
      if (block.bytes() < 2 * row) return;
      std::vector<std::byte> rows(block.bytes());
      copy_bytes(stream, rows.data(), block.data, rows.size());
      stream.synchronize();
      std::rotate(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(row), rows.end());
      copy_bytes(stream, block.data, rows.data(), rows.size());
      stream.synchronize();
      note_made();
    });
  }
};

// The gradient of a routing weight w is that of log w: the router's softmax has lost a factor w.
class LostGateProbability final : public ExchangeMistake {
 public:
  LostGateProbability() : ExchangeMistake(Operation::kAllToAll, Phase::kBackward) {}

 private:
  // The only exchanged tables of one column are the weights, and then their gradients.
  void in_exchanged(Stream& stream, const RankBlocks& received, const RankBlocks& sent) override {
    if (received.tensor.width() != 1) return;
    if (!comes_back(received)) {
      weights_ = read_elements(stream, sent.tensor);
      return;
    }
    each_block(received, [&](int rank, const Tensor& block) {
      const auto first = static_cast<std::size_t>(received.starts[static_cast<std::size_t>(rank)]);
      std::vector<float> values;
      for (const double value : read_elements(stream, block)) {
        const double weight = weights_.at(first + values.size());
        values.push_back(static_cast<float>(weight == 0 ? 0 : value / weight));
      }
      write_elements(stream, block, values);
      note_made();
    });
  }
  std::vector<double> weights_;
};

// The routers' losses of a rank's micro-batches are added instead of averaged.
class UnscaledRouterLosses final : public Mistake {
 public:
  void in_spec(EngineSpec& spec) override {
    ModelConfig& model = spec.model;
    const bool has_losses = model.router_aux_loss_coef > 0 || model.router_z_loss_coef > 0;
    if (model.num_experts == 0 || !has_losses || spec.micro_batches == 1) return;
    const auto times = static_cast<double>(spec.micro_batches);
    model.router_aux_loss_coef *= times;
    model.router_z_loss_coef *= times;
    note_made();
  }
};

template <class SomeMistake>
std::unique_ptr<Mistake> among_experts() {
  return std::make_unique<SomeMistake>();
}

}  // namespace

std::map<std::string, std::function<std::unique_ptr<Mistake>()>> expert_mistakes() {
  return {{"shifted-expert", among_experts<ShiftedExpert>},
          {"misplaced-expert-rows", among_experts<MisplacedExpertRows>},
          {"lost-gate-probability", among_experts<LostGateProbability>},
          {"unscaled-router-losses", among_experts<UnscaledRouterLosses>}};
}

}  // namespace trireme::verify
