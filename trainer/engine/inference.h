#pragma once
#include <cstdint>
#include <deque>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "model/stage/stage.h"
#include "model/tensor/host_mirror.h"
#include "trainer/engine/token_batch.h"

namespace trireme {

// A model that only runs forward: its weights, one micro-batch of activations, and
// for generation a key-value cache. No gradients, no optimizer.
class Inference {
 public:
  struct Spec {
    ModelConfig model;
    Device device = {};
    DType compute = DType::kF32;
    std::int64_t seq_len = 0;      // longest sequence: of a batch, or of prompt and answer
    std::int64_t micro_batch = 0;  // sequences evaluated at once; 0: no evaluation
    std::int64_t prompt = 0;       // tokens decoded at once, at most; 0: no generation
  };
  // Takes the memory that a dry run has found to be needed.
  explicit Inference(const Spec& spec);

  // For loading: the parameters, and their masters in memory of the host, flat, to be filled.
  // Then publish_masters.
  ParamStore& params() { return params_; }
  const Tensor& host_masters() const { return masters_.host(); }
  void publish_masters();

  // Fill it, then call evaluate: the loss summed over its valid targets.
  TokenBatch batch();
  double evaluate();
  // The same, token by token: [sequences * seq_len], 0 where there is nothing to predict.
  std::vector<double> token_losses();

  // Runs the sequence's next tokens, at most `prompt` of them, and returns the logits
  // that follow the last, valid until the next call.
  std::vector<float> next_logits(std::span<const std::int32_t> ids);
  std::int64_t decoded() const { return decoded_; }

  const Spec& spec() const { return spec_; }

 private:
  struct Places {
    Arena weights, masters, caches, keep, scratch;
  };
  Inference(const Spec& spec, Places places, Tally* tally);
  static Places planned(const Spec& spec);
  void take_buffers();
  Tensor losses();
  // [1, vocab] float32, on the device.
  Tensor decode(std::int64_t count);

  Spec spec_;
  Stream stream_;
  Places places_;
  Region region_;
  AttentionCore attention_;
  UnitHooks hooks_;
  ParamStore params_;
  Stage stage_;
  HostMirror masters_;
  HostMirror ids_, targets_, positions_, document_start_;
  HostMirror total_;
  std::vector<KeyValueCache> caches_;
  std::int64_t decoded_ = 0;
};

}  // namespace trireme
