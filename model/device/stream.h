#pragma once
#include <cstdint>
#include <vector>

#include "model/device/device.h"
#include "model/device/planned_op.h"

namespace trireme {

// What a planning Stream records. FLOPs are counted from the matrix products issued (a multiply and
// an add are two FLOPs). Causal attention is counted in two ways: without the mask (`full`, the
// convention of torchtitan and of Megatron-LM before 2024), and as computed (`causal`, the
// convention of llm.c and of Megatron-LM today). A sliding window bounds both.
struct Tally {
  double matmul = 0;
  double attention_full = 0;
  double attention_causal = 0;
  std::vector<PlannedOp>* ops = nullptr;  // receives all ops and messages; may be null
  bool recomputes = false;                // RecomputedOps

  void add(const PlannedOp& op) {
    if (op.kind == PlannedOp::Kind::kMatmul) matmul += op.flops;
    if (op.kind == PlannedOp::Kind::kAttention) {
      attention_full += 2 * op.flops;
      attention_causal += op.flops;
    }
    if (ops == nullptr) return;
    ops->push_back(op);
    ops->back().recomputes = recomputes;
  }
};

// A queue of work on one device. On the CPU work is done before the call returns; on CUDA it
// executes asynchronously, in order. Layers must not assume either.
//
// A planning stream executes nothing: ops check shapes, allocate workspace and record themselves in
// a Tally. Memory, FLOPs and time are planned by walking a step on a planning stream over unbounded
// arenas, so that plan and step cannot diverge.
class Stream {
 public:
  // On CUDA, ready work of an urgent stream is scheduled before that of other streams.
  enum class Priority : std::uint8_t { kUsual, kUrgent };

  // On CUDA it does not synchronize with any other stream, including the default stream. Throws
  // EnvironmentError if the device does not exist.
  explicit Stream(Device device = {}, Priority priority = Priority::kUsual);
  Stream(Device device, Tally& tally) : device_(device), tally_(&tally) {}
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  // Enqueued work still completes.
  ~Stream();

  Device device() const { return device_; }
  bool on_cuda() const { return device_.is_cuda(); }
  bool executes() const { return tally_ == nullptr; }
  Tally* tally() const { return tally_; }  // null: it executes
  // On a planning stream; otherwise a no-op.
  void record(const PlannedOp& op) const {
    if (tally_ != nullptr) tally_->add(op);
  }
  // The cudaStream_t of an executing stream on CUDA; otherwise null.
  void* handle() const { return handle_; }
  // Returns when all enqueued work is done. Throws EnvironmentError if any of it failed.
  void synchronize();

 private:
  Device device_;
  Tally* tally_ = nullptr;
  void* handle_ = nullptr;
};

}  // namespace trireme
