#include "model/ops/gemm_choices.h"

#include <gtest/gtest.h>

#include <vector>

#include "model/base/error.h"
#include "model/ops/cuda/algorithm_table.h"

namespace trireme::ops {
namespace {

using cuda::Algorithm;
using cuda::AlgorithmTable;

constexpr Algorithm kAlgorithm{0, 1, 0xfedcba9876543210, ~std::uint64_t{0}, 4, 5, 6, 7};

std::string of_cuda(const std::string& shape, const Algorithm& algorithm) {
  AlgorithmTable table;
  table.set("cuda: NVIDIA H100, cuBLASLt 130100", shape, algorithm);
  return table.json();
}

TEST(AlgorithmTable, ReadsBackItsJson) {
  AlgorithmTable table;
  table.set("cuda: a", "x", kAlgorithm);
  table.set("cuda: a", "y", {});
  table.set("cuda: b", "x", kAlgorithm);
  EXPECT_EQ(AlgorithmTable::parse(table.json()), table);
  EXPECT_EQ(AlgorithmTable::parse(table.json()).find("cuda: b", "x"), kAlgorithm);
  EXPECT_FALSE(table.find("cuda: b", "y"));
}

TEST(AlgorithmTable, RoundsExtentsToThreeBits) {
  EXPECT_EQ(cuda::extents_key(256, 2304, 7), "256 2560 7");
  EXPECT_EQ(cuda::extents_key(256, 2500, 9), "256 2560 10");
}

TEST(GemmChoices, NameWhatIsWrongWithAText) {
  for (const std::string text :
       {"", "{", "[1]", R"({"cuda: a": 3})", R"({"cuda: a": {"x": 7}})",
        R"({"cuda: a": {"x": "openblas"}})", R"({"cuda: a": {"x": "cublaslt:12"}})",
        R"({"AMD": {"x": "mkl"}})"}) {
    EXPECT_THROW(use_gemm_choices(text), ConfigError) << text;
  }
}

TEST(GemmChoices, OfBothDevicesAreOneTableAndTheFirstWins) {
  const std::string cpu = R"({"AMD": {"x": "openblas"}})";
  const std::vector<std::string> tables{of_cuda("x", kAlgorithm), of_cuda("x", {}), cpu};
  const std::string merged = merged_gemm_choices(tables);
  EXPECT_NE(merged.find(R"("x": "openblas")"), std::string::npos) << merged;
  EXPECT_NE(merged.find("0000000000000001fedcba9876543210ffffffffffffffff"), std::string::npos)
      << merged;
  use_gemm_choices(merged);
  EXPECT_EQ(gemm_choices(), merged);
  EXPECT_EQ(cuda::process_algorithms().find("cuda: NVIDIA H100, cuBLASLt 130100", "x"), kAlgorithm);
}

TEST(GemmChoices, GivenLaterComeBeforeThoseMade) {
  const int before = cuda::process_algorithms().generation();
  cuda::process_algorithms().set("cuda: here", "x", {});
  AlgorithmTable given;
  given.set("cuda: here", "x", kAlgorithm);
  use_gemm_choices(given.json());
  EXPECT_EQ(cuda::process_algorithms().find("cuda: here", "x"), kAlgorithm);
  EXPECT_EQ(cuda::process_algorithms().generation(), before + 1);
}

}  // namespace
}  // namespace trireme::ops
