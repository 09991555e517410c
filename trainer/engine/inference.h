#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "trainer/engine/decoder.h"
#include "trainer/engine/step_inputs.h"

namespace trireme {

// A model on one rank that only runs forward: weights, activations of one micro-batch and, for
// generation, a key-value cache. No gradients, no optimizer.
class Inference {
 public:
  struct Spec {
    ModelConfig model;
    Device device = {};
    DType compute = DType::kF32;
    std::int64_t seq_len = 0;      // longest sequence: of a batch, or prompt and completion
    std::int64_t micro_batch = 0;  // sequences per evaluation; 0: no evaluation
    std::int64_t prompt = 0;       // tokens of the longest prompt; 0: no generation
  };
  // Plans its memory on a planning stream, then takes it.
  explicit Inference(const Spec& spec);

  // For loading: the parameters, and their masters in host memory, to be filled in. Then
  // publish_masters.
  ParamStore& params() { return params_; }
  const HostMirror& host_masters() const { return masters_; }
  void publish_masters();

  // Fill it in, then call evaluate: the summed loss of its valid targets.
  data::TokenBatch batch() const { return inputs_->batch(1); }
  double evaluate();
  // The loss of each token, [sequences * seq_len], 0 without a target.
  std::vector<double> token_losses();

  // Decoder's.
  std::vector<float> next_logits(std::span<const std::int32_t> ids);

  const Spec& spec() const { return spec_; }

 private:
  struct Places {
    Arena weights, masters, data, activations, scratch;
  };
  Inference(const Spec& spec, Places memory, Tally* tally);
  static Places planned(const Spec& spec);
  Tensor losses();

  const Spec spec_;
  Stream stream_;
  Places places_;
  Region region_;
  AttentionCore attention_;
  UnitHooks hooks_;
  ParamStore params_;
  Stage stage_;
  HostMirror masters_;
  HostMirror total_;  // [1] F64, the summed loss
  std::optional<StepInputs> inputs_;
  std::optional<Decoder> decoder_;
};

}  // namespace trireme
