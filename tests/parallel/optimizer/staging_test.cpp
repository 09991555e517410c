// Shards longer than a piece, on a device whose masters and state lie on the host.
#include "parallel/optimizer/staging.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "model/device/copy.h"
#include "model/device/devices.h"
#include "model/ops/optimizer.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/optimizer/registry.h"

namespace trireme {
namespace {

constexpr Device kCuda{Device::Kind::kCuda, 0};
constexpr std::size_t kRoom = std::size_t{1} << 21;

using Bytes = std::vector<std::byte>;

// A rule over two parameters in bfloat16, whose second shard begins within a chunk.
struct Updates {
  Updates(const OptimizerOptions& options, std::int64_t piece)
      : masters(piece > 0 ? Arena::pinned(kRoom, kCuda) : Arena(kRoom, kCuda)),
        state(piece > 0 ? Arena::pinned(kRoom, kCuda) : Arena(kRoom, kCuda)),
        rule(make_optimizer(options, {self, self})) {
    store.begin_unit(0);
    store.declare(matrix("layers.0.a", 70));
    store.declare(matrix("layers.0.b", 130));
    store.allocate({weights, masters, &gradients}, DType::kBf16);
    store.initialize(1);
    for (ParamShard& shard : store.shards()) {
      std::size_t k = 0;
      for (const Optimizer::State& each : rule->state(shard.param->spec, DType::kF32)) {
        shard.state[k++] = state.take({shard.count()}, each.dtype);
      }
    }
    rule->prepare(store, store.shards(), workspace);
    scale = workspace.take({1});
    if (piece > 0) staging.emplace(store.shards(), piece);
  }
  static ParamSpec matrix(const char* name, std::int64_t rows) {
    return {.name = name, .shape = {rows, 100}, .init_scale = 0.02, .decay = true};
  }

  UpdateStep step_of(std::int64_t update) {
    return {stream, scale, 1e-2, update, staging ? &*staging : nullptr};
  }
  void step(std::int64_t update) {
    const Tensor grads = store.grads();
    std::vector<float> values(static_cast<std::size_t>(grads.count()));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>((i * 37 + static_cast<std::size_t>(update) * 11) % 101) - 50;
    }
    const float one = 1;
    copy_bytes(stream, grads.data, reinterpret_cast<const std::byte*>(values.data()),
               grads.bytes());
    copy_bytes(stream, scale.data, reinterpret_cast<const std::byte*>(&one), sizeof(one));
    const Arena::Frame frame(workspace);
    if (staging) staging->begin(stream, workspace);
    rule->update(step_of(update), store.shards());
    if (staging) staging->end(stream);
    stream.synchronize();
  }

  Bytes bytes(const Arena& arena, const Tensor& flat) {
    Bytes found(flat.bytes());
    if (arena.device().is_cuda()) {
      copy_bytes(stream, found.data(), flat.data, found.size());
      stream.synchronize();
    } else {
      std::memcpy(found.data(), flat.data, found.size());
    }
    return found;
  }
  // Values, masters and state.
  std::vector<Bytes> all() {
    std::vector<Bytes> found{bytes(weights, store.values()), bytes(masters, store.masters())};
    for (const ParamShard& shard : store.shards()) {
      for (const Tensor& each : shard.state) {
        if (each) found.push_back(bytes(state, each));
      }
    }
    return found;
  }

  Stream stream{kCuda};
  Arena weights{kRoom, kCuda}, gradients{kRoom, kCuda}, workspace{kRoom, kCuda};
  Arena masters, state;
  SelfCommunicator self;
  ParamStore store;
  std::unique_ptr<Optimizer> rule;
  std::optional<Staging> staging;
  Tensor scale;
};

class StagingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_devices().count == 0) GTEST_SKIP() << cuda_devices().reason;
  }
};

void expect_same_updates(const OptimizerOptions& options) {
  Updates here(options, 0), away(options, ops::kNormChunk);
  for (std::int64_t update = 1; update <= 3; ++update) {
    here.step(update);
    away.step(update);
  }
  EXPECT_TRUE(away.all() == here.all());
  publish_masters(here.step_of(3), options, here.store.shards());
  const Bytes published = here.bytes(here.weights, here.store.values());
  const Arena::Frame frame(away.workspace);
  fill_bytes(away.stream, away.store.values().data, 0, away.store.values().bytes());
  away.staging->begin(away.stream, away.workspace);
  publish_masters(away.step_of(3), options, away.store.shards());
  away.staging->end(away.stream);
  EXPECT_TRUE(away.bytes(away.weights, away.store.values()) == published);
}

TEST_F(StagingTest, every_rule_updates_pieces_as_it_updates_the_whole) {
  for (const NamedOptimizer& named : named_optimizers()) {
    const std::string name = named.name;
    for (const bool low : {false, true}) {
      SCOPED_TRACE(say(name, low ? " low" : ""));
      OptimizerOptions options;
      options.name = name;
      if (low) options.state_dtype = "bfloat16";
      options.stochastic_rounding = low;
      expect_same_updates(options);
    }
  }
}

}  // namespace
}  // namespace trireme
