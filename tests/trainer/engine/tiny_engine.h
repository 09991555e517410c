#pragma once
// What the tests of the engine share: small models of two families and engines of them on one
// rank. Compiled with TRIREME_TESTED_ON_CUDA they are on the first CUDA device.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "model/base/philox.h"
#include "model/device/devices.h"
#include "model/ops/gemm.h"
#include "parallel/comm/self_communicator.h"
#include "tests/tiny_model.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/step_plan.h"
#include "trainer/engine/weights_hash.h"

namespace trireme::test {

#ifdef TRIREME_TESTED_ON_CUDA
inline constexpr Device kDevice{Device::Kind::kCuda, 0};
#else
inline constexpr Device kDevice{};
#endif

// The emulator of a device takes its time.
inline constexpr std::int64_t kMicroBatches = kDevice.kind == Device::Kind::kCuda ? 2 : 3;

class OnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (kDevice.is_cuda() && cuda_devices().count == 0) GTEST_SKIP() << cuda_devices().reason;
  }
};

// Why the device has no products in float8; empty where it has.
inline std::string why_no_float8() {
  return kDevice.is_cuda() ? ops::why_no_float8(properties_of(kDevice)) : "";
}

inline EngineSpec spec_of(const char* family) {
  EngineSpec spec;
  spec.model = tiny_model(family);
  spec.data.document_mask = true;
  spec.training.seq_len = 20;
  spec.training.local_batch_size = 2;
  spec.micro_batches = kMicroBatches;
  return spec;
}

// With products in float8, which take multiples of 16.
inline EngineSpec float8_spec_of(const char* family) {
  EngineSpec spec = spec_of(family);
  spec.compute = DType::kBf16;
  spec.precision = MatmulPrecision::kFloat8;
  spec.training.local_batch_size = 4;
  spec.micro_batches = 2;
  return spec;
}

inline void fill(const data::TokenBatch& batch, std::uint64_t key, std::int64_t vocab) {
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    const auto words = philox(key, i);
    batch.ids[i] = static_cast<std::int32_t>(words[0] % static_cast<std::uint32_t>(vocab));
    batch.targets[i] = static_cast<std::int32_t>(words[1] % static_cast<std::uint32_t>(vocab));
    batch.positions[i] = static_cast<std::int32_t>(i % batch.seq_len);
    batch.document_start[i] = 0;
  }
  data::draw_dropout_words(batch, key, 0);
}

// An engine, initialized, with what outlives it.
struct TinyEngine {
  explicit TinyEngine(const EngineSpec& spec, Device device = kDevice)
      : plan(plan_engine(spec, alone, device)),
        stream(device),
        arenas(plan.memory, device),
        engine(spec, alone, stream, arenas) {
    engine.model().params().initialize(1);
    engine.model().publish_masters(engine.stream());
    engine.model().optimizer().start_average(engine.stream());
  }
  std::uint64_t weights() {
    SelfCommunicator ranks;
    return weights_hash(engine.model().params(), stream, ranks);
  }

  RankGroups alone;
  EnginePlan plan;
  Stream stream;
  Arenas arenas;
  Engine engine;
};

}  // namespace trireme::test
