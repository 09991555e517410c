// What a user's cache spares a process: timing cuBLASLt's algorithms again.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/ops/cuda/algorithm.h"
#include "model/ops/cuda/gemm_engine.h"
#include "tests/cuda_emulator/cublaslt.h"
#include "tests/cuda_emulator/streams.h"

namespace trireme::ops {
namespace {

constexpr std::int64_t kMost = 64;

class AlgorithmCache : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(folder); }
  void TearDown() override { std::filesystem::remove_all(folder); }

  // c [m, m] = a b. Returns whether the host has waited, which timing makes it do.
  bool multiply(cuda::GemmEngine& engine, std::int64_t m) {
    cuda::MatMul product;
    product.shape = {.m = m, .n = m, .k = m};
    product.a = memory.data();
    product.b = memory.data() + kMost * kMost * 4;
    product.c = memory.data() + 2 * kMost * kMost * 4;
    const std::uint64_t before = emulator::host_waits();
    engine.run(stream, product);
    return emulator::host_waits() > before;
  }
  std::filesystem::path file() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() == ".json") return entry.path();
    }
    return {};
  }
  static std::string key(std::int64_t m) { return cuda::choice_key({.m = m, .n = m, .k = m}); }

  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / say("algorithm-cache-", ::getpid());
  Stream stream{kCuda};
  Memory memory{3 * kMost * kMost * 4, kCuda};
};

TEST_F(AlgorithmCache, holds_what_was_timed_and_is_believed_by_the_next) {
  cuda::GemmEngine first(kCuda, folder);
  EXPECT_TRUE(multiply(first, 16));
  EXPECT_FALSE(multiply(first, 16));
  ASSERT_EQ(file().filename(), "gemm-cuda-an-emulator-cuBLASLt-130000-driver-13000.json");
  nlohmann::json kept = nlohmann::json::parse(read_text(file()));
  ASSERT_EQ(kept.size(), 1u);
  nlohmann::json& ways = kept.begin().value();
  // As if another process had timed two more shapes, with different results.
  const std::string timed = ways.at(key(16));
  const auto words = cuda::algorithm_named(timed);
  ASSERT_TRUE(words);
  for (const std::uint64_t way : {0u, 2u}) {
    cuda::Algorithm other = *words;
    other[1] = way;  // the emulator's own word for it
    ways[key(way == 0 ? 24 : 40)] = cuda::text_of(other);
  }
  std::ofstream(file()) << kept.dump();
  cuda::GemmEngine second(kCuda, folder);
  multiply(second, 16);  // known to this process
  EXPECT_FALSE(multiply(second, 24));
  EXPECT_FALSE(multiply(second, 40));
  EXPECT_TRUE(multiply(second, 64));
  const nlohmann::json after = nlohmann::json::parse(read_text(file())).begin().value();
  EXPECT_EQ(after.size(), 4u);
  EXPECT_EQ(after.at(key(40)), ways.at(key(40)));
  // What a run keeps is what was taken.
  const std::string machine = "cuda: an emulator, cuBLASLt 130000";
  for (const std::int64_t m : {16, 24, 40, 64}) {
    EXPECT_EQ(cuda::process_choices().find(machine, key(m)), after.at(key(m)).get<std::string>());
  }
}

TEST_F(AlgorithmCache, comes_after_what_a_run_was_given) {
  cuda::GemmEngine first(kCuda, folder);
  multiply(first, 32);
  const std::string machine = "cuda: an emulator, cuBLASLt 130000";
  cuda::Algorithm given = *cuda::algorithm_named(*cuda::process_choices().find(machine, key(32)));
  given[1] = given[1] == 0 ? 2 : 0;
  ChoiceTable table;
  table.set(machine, key(32), cuda::text_of(given));
  cuda::process_choices().use(table);
  EXPECT_FALSE(multiply(first, 32));
  EXPECT_EQ(cuda::process_choices().find(machine, key(32)), cuda::text_of(given));
  EXPECT_NE(read_text(file()).find(key(32)), std::string::npos);
  EXPECT_EQ(read_text(file()).find(cuda::text_of(given)), std::string::npos);
}

TEST_F(AlgorithmCache, an_algorithm_that_fails_is_left_out_and_others_are_timed) {
  using emulator::Way;
  cuda::GemmEngine engine(kCuda, folder);
  emulator::failing_ways() = {Way::kVectors};  // the first proposal
  EXPECT_TRUE(multiply(engine, 48));
  const auto chosen = cuda::algorithm_named(
      *cuda::process_choices().find("cuda: an emulator, cuBLASLt 130000", key(48)));
  EXPECT_NE((*chosen)[1], static_cast<std::uint64_t>(Way::kVectors));
  emulator::failing_ways() = {Way::kVectors, Way::kInOrder, Way::kHalves};
  EXPECT_THROW(multiply(engine, 56), EnvironmentError);
  emulator::failing_ways().clear();
  EXPECT_TRUE(multiply(engine, 56));  // nothing of the failure was kept
}

}  // namespace
}  // namespace trireme::ops
