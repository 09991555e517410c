// cuDNN says what it can do on a device that is described, not there: so every machine tells
// whether the graphs of attention are what the library takes. It wants a driver all the same,
// which need not drive anything: the toolkit's stub will do.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "model/base/error.h"
#include "model/ops/cuda/attention_graph.h"

namespace trireme::ops::cuda {
namespace {

struct Described {
  const char* name;
  int capability;  // 90 for 9.0
  int multiprocessors, shared_bytes;
};
constexpr Described kDevices[] = {{"NVIDIA A100-SXM4-80GB", 80, 108, 166912},
                                  {"NVIDIA H100 80GB HBM3", 90, 132, 232448}};

std::shared_ptr<cudnn_frontend::DeviceProperties> properties_of(const Described& device) {
  const std::string json =
      say(R"({"maxGridSize":[2147483647,65535,65535],"maxBlockSize":[1024,1024,64],)",
          R"("regsPerBlock":65536,"multiProcessorCount":)", device.multiprocessors,
          R"(,"warpSize":32,"maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":)",
          device.shared_bytes, R"(,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,)",
          R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"pciDeviceId":0,)",
          R"("isTccDriver":0,"supportCoopLaunch":1,"totalGlobalMem":84942979072,)",
          R"("smClockRateKHz":1980000,"memClockRateKHz":2619000,"l2CacheSize":52428800,)",
          R"("cudaDeviceId":0,"deviceVer":)", 10 * device.capability,
          R"(,"driverVer":13000,"deviceName":")", device.name, R"("})");
  auto properties = std::make_shared<cudnn_frontend::DeviceProperties>();
  auto read = properties->deserialize({json.begin(), json.end()});
  if (read.is_bad()) throw Error(read.get_message());
  return properties;
}

AttentionShape shape_of(std::int64_t seq, Heads heads) {
  return {.batch = 2, .seq = seq, .heads = heads, .scale = 0.125, .masked = false};
}

class AttentionPlan : public ::testing::TestWithParam<Described> {
 protected:
  void SetUp() override {
    if (::dlopen("libcuda.so.1", RTLD_NOW) == nullptr) GTEST_SKIP() << ::dlerror();
  }
  // What cuDNN has against computing this on the device; empty: nothing.
  static std::string refusal(AttentionPass pass, const AttentionShape& shape,
                             DType dtype = DType::kBf16, const Heads* in_row = nullptr) {
    cudnn_frontend::graph::Graph graph;
    graph.set_device_properties(properties_of(GetParam()));
    graph.set_sm_version(GetParam().capability);
    add_attention(graph, pass, shape, dtype, in_row ? *in_row : shape.heads);
    auto answer = graph.validate();
    if (answer.is_good()) answer = graph.build_operation_graph();
    if (answer.is_good()) answer = graph.create_execution_plans({cudnn_frontend::HeurMode_t::A});
    if (answer.is_good()) answer = graph.check_support();
    return answer.get_message();
  }
};
INSTANTIATE_TEST_SUITE_P(Of, AttentionPlan, ::testing::ValuesIn(kDevices), [](const auto& of) {
  return "Capability" + std::to_string(of.param.capability);
});

TEST_P(AttentionPlan, IsThereForBothPassesOfUsualShapes) {
  for (const Heads heads : {Heads{12, 12, 64}, Heads{32, 8, 128}}) {
    for (const std::int64_t seq : {1024, 1000, 33}) {
      for (const AttentionPass pass : {AttentionPass::kForward, AttentionPass::kBackward}) {
        for (const DType dtype : {DType::kBf16, DType::kF16}) {
          EXPECT_EQ(refusal(pass, shape_of(seq, heads), dtype), "")
              << heads.heads << " heads, " << seq << " " << name_of(dtype);
        }
      }
    }
  }
}

TEST_P(AttentionPlan, IsThereForAPartOfTheHeadsInARow) {
  const Heads in_row{32, 8, 128};
  AttentionShape part = shape_of(8192, {8, 2, 128});
  part.batch = 1;
  EXPECT_EQ(refusal(AttentionPass::kBackward, part, DType::kBf16, &in_row), "");
}

TEST_P(AttentionPlan, IsRefusedInWordsWhereThereIsNone) {
  const auto said = [](Heads heads) {
    return refusal(AttentionPass::kForward, shape_of(1024, heads));
  };
  EXPECT_NE(said({12, 5, 64}).find("must be a factor of"), std::string::npos) << said({12, 5, 64});
  EXPECT_NE(said({12, 12, 20}).find("multiple of 8"), std::string::npos) << said({12, 12, 20});
}

}  // namespace
}  // namespace trireme::ops::cuda
