#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"

namespace trireme {

class Staging;

// What an optimizer is made from. A rule reads what its line names and nothing else.
struct OptimizerOptions {
  std::string name = "AdamW";                      // one of update_rule_names()
  double beta1 = 0.9, beta2 = 0.95;                // AdamW, Lion, LAMB, Muon
  double epsilon = 1e-8;                           // AdamW, LAMB, Muon
  double weight_decay = 0.1;                       // all, where ParamSpec::decay
  double momentum = 0.9;                           // SGD, LARS, Muon
  bool nesterov = false;                           // SGD, Muon
  double trust_coefficient = 0.001;                // LARS
  std::int64_t newton_schulz_steps = 5;            // Muon
  std::string muon_adjust_lr = "match_rms_adamw";  // Muon: or "original"
  double muon_adamw_lr_ratio = 1;                  // Muon: AdamW's rate for the rest, over Muon's
  bool bfloat16_state = false;                     // moments are stored in bfloat16
  bool stochastic_rounding = false;                // of the weights that are published
  std::uint64_t seed = 0;                          // of what is rounded stochastically
  bool operator==(const OptimizerOptions&) const = default;
};

// A run of one parameter's elements, row by row in the rectangle of it that is held here
// (Param::box), which this rank updates.
struct UpdateRange {
  const Param* param = nullptr;
  std::int64_t first = 0;  // its first element within the rectangle
  Tensor value;            // [count] compute dtype: what is published
  Tensor master;           // [count] the accumulator dtype; `value` where that is the compute dtype
  Tensor grad;             // [count] the accumulator dtype; a rule may use it up
  std::vector<Tensor> state;  // [count] each, as UpdateRule::state() lists them
  // Set where master or state lie on the host and `value` on a device: it moves them.
  Staging* staging = nullptr;
};

// The groups that one parameter is shared out over.
struct UpdateRanks {
  Communicator& shard;  // holds the other ranges of the same rectangles
  Communicator&
      tensor;  // holds the other rectangles (ParamSpec::cut), each over a like shard group
};

// An optimizer, as what it does to ranges. All of a step's ranges are known beforehand, so
// that whatever needs a whole parameter (a norm, a matrix) is found over the ranks.
class UpdateRule {
 public:
  UpdateRule() = default;
  UpdateRule(const UpdateRule&) = delete;
  UpdateRule& operator=(const UpdateRule&) = delete;
  virtual ~UpdateRule() = default;

  // A tensor that lasts from step to step, zero before the first one.
  struct State {
    std::string name;  // a checkpoint's prefix: "adam.m"
    DType dtype;
  };
  // What is kept for every element of this parameter; a rule may treat matrices and
  // vectors unlike. `accumulator` is the dtype of the masters.
  virtual std::vector<State> state(const ParamSpec& spec, DType accumulator) const = 0;

  // Once, before the first update. `params` are those of this rank's share of the model,
  // declared alike on all ranks of both groups, and `ranges` those of every later update,
  // in whatever pieces. Takes temporaries from `workspace` for good.
  virtual void prepare(const ParamStore& params, std::span<const UpdateRange> ranges,
                       Arena& workspace) = 0;

  // Collective over both groups. `grad_scale` [1] of the accumulator dtype is what the
  // gradients are multiplied by; when it is NaN the step is skipped: values, masters and
  // state stay as they are. `update` counts from 1.
  virtual void update(Stream& stream, std::span<const UpdateRange> ranges, Tensor grad_scale,
                      double learning_rate, std::int64_t update) = 0;
};

// Makes the values of the masters again what they were after `update` updates, for a run that
// goes on from its masters.
void publish_masters(Stream& stream, const OptimizerOptions& options,
                     std::span<const UpdateRange> ranges, std::int64_t update);

// AdamW, SGD, Lion, LAMB, LARS, Muon.
std::vector<std::string> update_rule_names();
// The groups outlive the rule. Throws ConfigError for an unknown name.
std::unique_ptr<UpdateRule> make_update_rule(const OptimizerOptions& options, UpdateRanks ranks);

}  // namespace trireme
