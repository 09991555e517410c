#pragma once

namespace trireme {

// What the outside does around a block's work: the seam for data parallelism
// and ZeRO, which gather weights before use and reduce gradients after. Blocks
// are counted within the stage. This class does nothing: all weights are here.
class BlockHooks {
 public:
  BlockHooks() = default;
  BlockHooks(const BlockHooks&) = delete;
  BlockHooks& operator=(const BlockHooks&) = delete;
  virtual ~BlockHooks() = default;

  virtual void before_forward(int /*block*/) {}
  virtual void before_backward(int /*block*/) {}
  virtual void after_backward(int /*block*/) {}
};

}  // namespace trireme
