#include "model/ops/cuda/attention_cudnn.h"

#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "model/device/cuda/check.h"
#include "model/device/devices.h"
#include "model/ops/cuda/attention_choice.h"
#include "model/ops/cuda/attention_graph.h"

namespace trireme::ops::cuda {
namespace {

namespace fe = cudnn_frontend;

void check(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw EnvironmentError(say(call, ": ", cudnnGetErrorString(status)));
}

std::string version_text(std::size_t version) {
  return say(version / 10000, ".", version % 10000 / 100, ".", version % 100);
}

// Everything a plan depends on.
struct Key {
  AttentionPass pass;
  DType dtype;
  std::int64_t batch, seq, heads, kv_heads, width;
  double scale;
  auto operator<=>(const Key&) const = default;
};

Key key_of(AttentionPass pass, const AttentionShape& shape, DType dtype) {
  const Heads& heads = shape.heads;
  return {pass,        dtype,          shape.batch, shape.seq,
          heads.heads, heads.kv_heads, heads.width, shape.scale};
}

struct CudnnRelease {
  void operator()(cudnnHandle_t handle) const { cudnnDestroy(handle); }
};

// A process's plans on one CUDA device.
class Engine {
 public:
  explicit Engine(Device device) : device_(device) {
    trireme::cuda::use_device(device.index);
    cudnnHandle_t library = nullptr;
    check(cudnnCreate(&library), "cudnnCreate");
    library_.reset(library);
  }

  FusedPlan plan(AttentionPass pass, const AttentionShape& shape, DType dtype) {
    const std::lock_guard guard(mutex_);
    return decided(pass, shape, dtype).plan;
  }

  void run(Stream& stream, AttentionPass pass, const FusedAttention& on,
           const AttentionShape& shape) {
    const std::lock_guard guard(mutex_);
    const Decided& how = decided(pass, shape, on.qkv.dtype);
    require(how.plan.refusal.empty(), "attention without a plan of cuDNN's: ", how.plan.refusal);
    require(on.workspace.bytes() >= how.plan.workspace_bytes, "cuDNN's attention has ",
            on.workspace.bytes(), " of its ", how.plan.workspace_bytes, " bytes of workspace");
    trireme::cuda::use_device(device_.index);
    check(cudnnSetStream(library_.get(), trireme::cuda::queue_of(stream)), "cudnnSetStream");
    auto addresses = addresses_of(pass, on, shape.heads);
    auto done = how.graph->execute(library_.get(), addresses, on.workspace.data);
    if (done.is_bad()) throw EnvironmentError(say("cuDNN's attention: ", done.get_message()));
  }

 private:
  struct Decided {
    FusedPlan plan;
    std::unique_ptr<fe::graph::Graph> graph;  // null without a plan
  };

  const Decided& decided(AttentionPass pass, const AttentionShape& shape, DType dtype) {
    const Key key = key_of(pass, shape, dtype);
    const auto found = decided_.find(key);
    if (found != decided_.end()) return found->second;
    return decided_.emplace(key, decide(pass, shape, dtype)).first->second;
  }

  Decided decide(AttentionPass pass, const AttentionShape& shape, DType dtype) {
    trireme::cuda::use_device(device_.index);
    auto graph = std::make_unique<fe::graph::Graph>();
    add_attention(*graph, pass, shape, dtype);
    if (auto built = graph->build(library_.get(), {fe::HeurMode_t::A}); built.is_bad())
      return {{.refusal = say("cuDNN does not support this: ", built.get_message())}, nullptr};
    std::int64_t bytes = 0;
    if (auto asked = graph->get_workspace_size(bytes); asked.is_bad())
      throw EnvironmentError(say("cuDNN's workspace: ", asked.get_message()));
    FusedPlan plan{.workspace_bytes = static_cast<std::size_t>(bytes), .refusal = {}};
    plan.refusal = why_too_large(plan.workspace_bytes, properties_of(device_).memory_bytes);
    if (!plan.refusal.empty()) graph.reset();
    return {std::move(plan), std::move(graph)};
  }

  static std::unordered_map<std::int64_t, void*> addresses_of(AttentionPass pass,
                                                              const FusedAttention& on,
                                                              const Heads& heads) {
    const std::int64_t keys = heads.query(), values = keys + heads.kv_heads * heads.width;
    const auto in = [](const Tensor& tensor, std::int64_t element) -> void* {
      return tensor.data + element * static_cast<std::int64_t>(size_of(tensor.dtype));
    };
    std::unordered_map<std::int64_t, void*> all{{kQueries, in(on.qkv, 0)},
                                                {kKeys, in(on.qkv, keys)},
                                                {kValues, in(on.qkv, values)},
                                                {kOut, in(on.out, 0)},
                                                {kLse, on.lse.as<float>()}};
    if (pass == AttentionPass::kBackward) {
      all.insert({{kDout, in(on.dout, 0)},
                  {kDqueries, in(on.dqkv, 0)},
                  {kDkeys, in(on.dqkv, keys)},
                  {kDvalues, in(on.dqkv, values)}});
    }
    return all;
  }

  Device device_;
  std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, CudnnRelease> library_;
  std::mutex mutex_;
  std::map<Key, Decided> decided_;
};

// The process's engine for a device.
Engine& engine_of(Device device) {
  static std::mutex mutex;
  static std::map<int, Engine> engines;
  const std::lock_guard guard(mutex);
  return engines.try_emplace(device.index, device).first->second;
}

}  // namespace

FusedPlan cudnn_attention_plan(Device device, AttentionPass pass, const AttentionShape& shape,
                               DType dtype) {
  return engine_of(device).plan(pass, shape, dtype);
}

void cudnn_attention(Stream& stream, AttentionPass pass, const FusedAttention& on,
                     const AttentionShape& shape) {
  engine_of(stream.device()).run(stream, pass, on, shape);
}

std::string cudnn_attention_name() {
  return "cuDNN " + version_text(cudnnGetVersion());
}

std::string cudnn_attention_build() {
  return "cuDNN, frontend " + version_text(CUDNN_FRONTEND_VERSION);
}

}  // namespace trireme::ops::cuda
