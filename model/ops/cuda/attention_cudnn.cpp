#include "model/ops/cuda/attention_cudnn.h"

#include <compare>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "model/base/log.h"
#include "model/device/cuda/check.h"
#include "model/device/devices.h"
#include "model/ops/cuda/attention_choice.h"
#include "model/ops/cuda/attention_graph.h"

namespace trireme::ops::cuda {
namespace {

namespace fe = cudnn_frontend;

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
    const cudnnStatus_t status = cudnnCreate(&library);
    library_.reset(library);
    if (status == CUDNN_STATUS_SUCCESS) return;
    why_no_library_ = say("cudnnCreate: ", cudnnGetErrorString(status));
  }

  FusedPlan plan(AttentionPass pass, const AttentionShape& shape, DType dtype) {
    const std::lock_guard guard(mutex_);
    return decided(pass, shape, dtype).plan;
  }

  bool run(Stream& stream, AttentionPass pass, const FusedAttention& on,
           const AttentionShape& shape) {
    const std::lock_guard guard(mutex_);
    Decided& how = decided(pass, shape, on.qkv.dtype);
    if (!how.plan.refusal.empty()) return false;
    require(on.workspace.bytes() >= how.plan.workspace_bytes, "cuDNN's attention has ",
            on.workspace.bytes(), " of its ", how.plan.workspace_bytes, " bytes of workspace");
    trireme::cuda::use_device(device_.index);
    std::string failure;
    const cudnnStatus_t status = cudnnSetStream(library_.get(), trireme::cuda::queue_of(stream));
    if (status != CUDNN_STATUS_SUCCESS)
      failure = say("cudnnSetStream: ", cudnnGetErrorString(status));
    for (std::int64_t part = 0; failure.empty() && part < how.parts.count(); ++part) {
      auto addresses = addresses_of(pass, on, shape, how.parts.start(part));
      auto done = how.graph->execute(library_.get(), addresses, on.workspace.data);
      if (done.is_bad()) failure = say("it fails to run: ", done.get_message());
    }
    if (failure.empty()) return true;
    how.plan.refusal = std::move(failure);
    warn(shape, on.qkv.dtype, how.plan.refusal);
    return false;
  }

 private:
  struct Decided {
    FusedPlan plan;
    AttentionParts parts;
    std::unique_ptr<fe::graph::Graph> graph;  // null without a plan
  };

  Decided& decided(AttentionPass pass, const AttentionShape& shape, DType dtype) {
    const Key key = key_of(pass, shape, dtype);
    const auto found = decided_.find(key);
    if (found != decided_.end()) return found->second;
    Decided& made = decided_.emplace(key, decide(pass, shape, dtype)).first->second;
    if (!made.plan.refusal.empty()) warn(shape, dtype, made.plan.refusal);
    return made;
  }

  Decided decide(AttentionPass pass, const AttentionShape& shape, DType dtype) {
    const bool is_backward = pass == AttentionPass::kBackward;
    Decided made{.plan = {.workspace_bytes = 0, .refusal = why_no_library_},
                 .parts = is_backward ? backward_parts(shape, dtype) : AttentionParts{shape},
                 .graph = nullptr};
    if (!made.plan.refusal.empty()) return made;
    trireme::cuda::use_device(device_.index);
    auto graph = std::make_unique<fe::graph::Graph>();
    add_attention(*graph, pass, made.parts.each, dtype, shape.heads);
    std::int64_t bytes = 0;
    auto answer = graph->build(library_.get(), {fe::HeurMode_t::A});
    if (answer.is_good()) answer = graph->get_workspace_size(bytes);
    made.plan.workspace_bytes = static_cast<std::size_t>(bytes);
    made.plan.refusal = answer.is_bad() ? say("it does not support this: ", answer.get_message())
                                        : why_too_large(made.plan.workspace_bytes,
                                                        properties_of(device_).memory_bytes);
    if (made.plan.refusal.empty()) made.graph = std::move(graph);
    return made;
  }

  // Once for a shape, and once for a library that is not there.
  void warn(const AttentionShape& shape, DType dtype, const std::string& reason) {
    const bool is_new = why_no_library_.empty()
                            ? warned_.insert(key_of(AttentionPass::kForward, shape, dtype)).second
                            : !std::exchange(has_warned_of_library_, true);
    if (is_new) log_text(LogLevel::kWarning, refusal_warning(shape, dtype, reason));
  }

  static std::unordered_map<std::int64_t, void*> addresses_of(AttentionPass pass,
                                                              const FusedAttention& on,
                                                              const AttentionShape& shape,
                                                              const AttentionParts::Start& at) {
    const Heads& heads = shape.heads;
    const std::int64_t row = at.entry * shape.seq;
    const std::int64_t queries = row * heads.qkv() + at.head * heads.width;
    const std::int64_t keys = row * heads.qkv() + heads.query() + at.kv_head * heads.width;
    const std::int64_t values = keys + heads.kv_heads * heads.width;
    const std::int64_t out = row * heads.query() + at.head * heads.width;
    const std::int64_t lse = (at.entry * heads.heads + at.head) * shape.seq;
    const auto in = [](const Tensor& tensor, std::int64_t element) -> void* {
      return tensor.data + element * static_cast<std::int64_t>(size_of(tensor.dtype));
    };
    std::unordered_map<std::int64_t, void*> all{{kQueries, in(on.qkv, queries)},
                                                {kKeys, in(on.qkv, keys)},
                                                {kValues, in(on.qkv, values)},
                                                {kOut, in(on.out, out)},
                                                {kLse, in(on.lse, lse)}};
    if (pass == AttentionPass::kBackward) {
      all.insert({{kDout, in(on.dout, out)},
                  {kDqueries, in(on.dqkv, queries)},
                  {kDkeys, in(on.dqkv, keys)},
                  {kDvalues, in(on.dqkv, values)}});
    }
    return all;
  }

  Device device_;
  std::string why_no_library_;  // empty: it is there
  std::unique_ptr<std::remove_pointer_t<cudnnHandle_t>, CudnnRelease> library_;
  std::mutex mutex_;
  std::map<Key, Decided> decided_;
  std::set<Key> warned_;
  bool has_warned_of_library_ = false;
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

bool cudnn_attention(Stream& stream, AttentionPass pass, const FusedAttention& on,
                     const AttentionShape& shape) {
  return engine_of(stream.device()).run(stream, pass, on, shape);
}

std::string cudnn_attention_name() {
  return "cuDNN " + version_text(cudnnGetVersion());
}

std::string cudnn_attention_build() {
  return "cuDNN, frontend " + version_text(CUDNN_FRONTEND_VERSION);
}

}  // namespace trireme::ops::cuda
