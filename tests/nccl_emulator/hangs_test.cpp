// What hangs a job of several GPUs, and what the product does about each.
#include <gtest/gtest.h>
#include <nccl.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "model/ops/elementwise.h"
#include "parallel/comm/gpu_environment.h"
#include "tests/nccl_emulator/device_values.h"
#include "tests/nccl_emulator/step_messages.h"

namespace trireme {
namespace {

using emulator::Hang;
using test::DeviceValues;
using test::EmulatedJob;
using test::EmulatedRank;

using Body = std::function<void(EmulatedRank&)>;

std::map<std::string, std::string> set_by_the_product() {
  std::map<std::string, std::string> variables;
  for (const auto& [name, value] : comm::gpu_variables()) variables[name] = value;
  return variables;
}

// How many of so many schedules hang.
int hangs(EmulatedJob options, const Body& body, int schedules = 100) {
  int found = 0;
  for (int seed = 1; seed <= schedules; ++seed) {
    options.job.seed = static_cast<std::uint64_t>(seed);
    try {
      test::run_emulated(options, body);
    } catch (const Hang& hang) {
      EXPECT_NE(std::string(hang.what()).find("spins"), std::string::npos) << hang.what();
      ++found;
    }
  }
  return found;
}

// Two collectives of two communicators on streams of their own.
struct TwoGroups {
  TwoGroups(EmulatedRank& own, int blocking) : stream{Stream(own.device), Stream(own.device)} {
    for (int i = 0; i < 2; ++i) {
      std::vector<std::int32_t> words(sizeof(ncclUniqueId) / 4);
      ncclUniqueId id{};
      if (own.rank == 0) ncclGetUniqueId(&id);
      std::memcpy(words.data(), &id, sizeof id);
      const auto host = own.hosts.group(i == 0 ? "one" : "other", {0, 1});
      Stream on_host;
      host->broadcast(on_host,
                      {reinterpret_cast<std::byte*>(words.data()), DType::kI32,
                       Shape{static_cast<std::int64_t>(words.size())}, Device{}},
                      0);
      std::memcpy(&id, words.data(), sizeof id);
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = blocking;
      config.commName = i == 0 ? "one" : "other";
      ncclCommInitRankConfig(&comm[i], 2, id, own.rank, &config);
      settle(i);
      data[i] = std::make_unique<DeviceValues>(std::vector<float>(8), stream[i]);
      start(i);
      settle(i);
      stream[i].synchronize();
    }
  }
  void settle(int i) const {
    ncclResult_t state = ncclSuccess;
    ncclCommGetAsyncError(comm[i], &state);
  }
  void start(int i) {
    const Tensor tensor = data[i]->tensor();
    ncclAllReduce(tensor.data, tensor.data, 8, ncclFloat32, ncclSum, comm[i],
                  static_cast<cudaStream_t>(stream[i].handle()));
  }
  void end() {
    for (int i = 0; i < 2; ++i) {
      settle(i);
      stream[i].synchronize();
    }
  }

  ncclComm_t comm[2] = {};
  Stream stream[2];
  std::unique_ptr<DeviceValues> data[2];
};

// As many multiprocessors as one collective takes.
EmulatedJob narrow_device(bool ordered) {
  EmulatedJob options{.job = {.multiprocessors = 2}};
  if (ordered) options.job.variables = {{"NCCL_LAUNCH_ORDER_IMPLICIT", "1"}};
  return options;
}

TEST(Hangs, come_of_launches_of_two_communicators_in_different_orders) {
  const auto launches = [](bool same_order) {
    return [=](EmulatedRank& own) {
      TwoGroups groups(own, /*blocking=*/1);
      const int first = same_order ? 0 : own.rank;
      groups.start(first);
      groups.start(1 - first);
      groups.end();
    };
  };
  EXPECT_EQ(hangs(narrow_device(true), launches(false)), 100);
  EXPECT_GT(hangs(narrow_device(false), launches(true)), 0);
  EXPECT_EQ(hangs(narrow_device(true), launches(true)), 0);
}

TEST(Hangs, come_of_the_racing_threads_of_nonblocking_communicators) {
  const auto launches = [](int blocking) {
    return [=](EmulatedRank& own) {
      TwoGroups groups(own, blocking);
      groups.start(0);
      groups.start(1);
      groups.end();
    };
  };
  EXPECT_GT(hangs(narrow_device(true), launches(0)), 0);
  EXPECT_EQ(hangs(narrow_device(true), launches(1)), 0);
}

TEST(Hangs, come_of_many_streams_on_few_hardware_queues) {
  const auto steps = [](EmulatedRank& own) {
    test::communicate(own, {.pipeline = 4, .tensor = 2}, 1);
  };
  EmulatedJob options{.job = {.ranks = 8}};
  options.job.variables = set_by_the_product();
  EXPECT_EQ(hangs(options, steps, 20), 0);
  options.job.variables["CUDA_DEVICE_MAX_CONNECTIONS"] = "8";  // CUDA's own
  EXPECT_GT(hangs(options, steps, 20), 0);
  options.job.variables["CUDA_DEVICE_MAX_CONNECTIONS"] = "1";
  EXPECT_GT(hangs(options, steps, 20), 0);
}

// Each rank sends only after `between`.
Body receives_first(
    const std::function<void(EmulatedRank&, Stream&, const DeviceValues&)>& between) {
  return [between](EmulatedRank& own) {
    const auto group = own.group("ring", {0, 1}, Messages::kSent);
    Stream stream(own.device);
    const DeviceValues sent(std::vector<float>(4, 1), stream), received(sent.read(), stream);
    Transfer coming = group->start_receive(stream, received.tensor(), 1 - own.rank);
    between(own, stream, sent);
    Transfer going = group->start_send(stream, sent.tensor(), 1 - own.rank);
    coming.wait();
    going.wait();
    stream.synchronize();
  };
}

TEST(Hangs, come_of_an_allocation_while_a_receive_waits) {
  EmulatedJob options;
  options.job.variables = set_by_the_product();
  const auto allocate = [](EmulatedRank& own, Stream&, const DeviceValues&) {
    const Memory memory(256, own.device);
  };
  const auto nothing = [](EmulatedRank&, Stream&, const DeviceValues&) {};
  EXPECT_GT(hangs(options, receives_first(allocate)), 0);
  EXPECT_EQ(hangs(options, receives_first(nothing)), 0);
}

TEST(Hangs, come_of_kernels_that_are_loaded_while_a_receive_waits) {
  EmulatedJob options;
  options.job.variables = set_by_the_product();
  const auto launch = [](EmulatedRank&, Stream& stream, const DeviceValues& values) {
    ops::add(stream, values.tensor(), values.tensor(), values.tensor());
  };
  EXPECT_EQ(hangs(options, receives_first(launch)), 0);
  options.job.variables["CUDA_MODULE_LOADING"] = "LAZY";  // CUDA's own
  EXPECT_GT(hangs(options, receives_first(launch)), 0);
}

}  // namespace
}  // namespace trireme
