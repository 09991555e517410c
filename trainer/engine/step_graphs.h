#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/device/graph.h"
#include "parallel/pipeline/action_launcher.h"
#include "trainer/engine/model_state.h"

namespace trireme {

// Why a rank's actions cannot be replayed from CUDA graphs; empty if they can.
std::string no_graph_because(const EngineSpec& spec, const RankGroups& groups, Device device);

// Captures the forward and the backward of a micro-batch in CUDA graphs and replays them, with the
// same bits. An action is captured once per kind: per slot and boxes of the pipeline, and per place
// of its gradients (the first micro-batch's replace, the last one's are reduced).
//
// Where hooks queue work or start transfers (ZeRO, the last micro-batch's reductions, sums in a
// tree), the capture is cut and the hook called between two graphs. The first action of a kind is
// launched plainly, since matmul algorithms are then chosen by timing.
//
// A capture that fails leaves no trace: the action and all later ones are launched plainly, and one
// warning says why. Graphs take about 1 KiB of device memory a node, part of device_reserve(); at
// kMostNodes no more are made.
class StepGraphs final : public ActionLauncher, private HookLog {
 public:
  static constexpr std::size_t kMostNodes = 200'000;

  explicit StepGraphs(ModelState& model) : model_(model) {}

  // Called before the first action of a step.
  void begin_step() { done_.clear(); }
  Tensor launch(Stream& stream, const RankPlan::Step& step, Arena& saved,
                const std::function<Tensor()>& compute) override;

 private:
  // All that addresses and the layers' choices depend on.
  struct Key {
    Action::Kind kind;
    int stage, slot, inbox, outbox, own_reader_inbox, forward_inbox, split_inbox, gradient_place;
    bool awaits_values, makes_codes;
    auto operator<=>(const Key&) const = default;
  };
  // Hooks to call, then a graph to launch.
  struct Part {
    std::vector<HookCall> calls;
    Graph graph;
  };
  struct Recording {
    std::vector<Part> parts;
    Tensor output;
    std::size_t saved_bytes = 0;  // in use in the slot's arena afterwards
    std::vector<bool> given;      // of ParamStore::stale(): no longer stale; empty: none
  };

  Key key_of(const RankPlan::Step& step);
  // Nothing if it fails, with everything as it was.
  std::optional<Recording> record(Stream& stream, Arena& saved,
                                  const std::function<Tensor()>& compute);
  void replay(Stream& stream, Recording& recording, Arena& saved);
  void called(Stream& stream, const HookCall& call) override;
  void close_part();
  std::vector<bool> given() const;

  ModelState& model_;
  std::map<std::pair<int, Action::Kind>, std::int64_t> done_;  // actions of the step, by stage
  std::map<Key, std::optional<Recording>> recordings_;         // nothing: launched plainly once
  // Of the capture under way: its parts, and what of ParamStore::stale() was stale at any time.
  std::vector<Part> parts_;
  std::vector<bool> stale_;
  std::optional<GraphCapture> capture_;
  std::size_t nodes_ = 0;
  bool records_ = true, replays_ = true;
};

}  // namespace trireme
