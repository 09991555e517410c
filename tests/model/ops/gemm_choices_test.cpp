#include "model/ops/gemm_choices.h"

#include <gtest/gtest.h>

#include <vector>

#include "model/base/error.h"
#include "model/ops/cuda/algorithm.h"

namespace trireme::ops {
namespace {

using cuda::Algorithm;

constexpr Algorithm kAlgorithm{0, 1, 0xfedcba9876543210, ~std::uint64_t{0}, 4, 5, 6, 7};
constexpr const char* kH100 = "cuda: NVIDIA H100, cuBLASLt 130100";

std::string of_cuda(const std::string& shape, const Algorithm& algorithm) {
  ChoiceTable table;
  table.set(kH100, shape, cuda::text_of(algorithm));
  return table.json();
}

bool is_short(const std::string& machine, const std::string& way) {
  return way.size() < machine.size();
}

TEST(ChoiceTable, ReadsBackItsJson) {
  ChoiceTable table;
  table.set("of one", "x", "a");
  table.set("of one", "y", "b");
  table.set("another", "x", "c");
  EXPECT_EQ(ChoiceTable::parse(table.json(), is_short), table);
  EXPECT_EQ(ChoiceTable::parse(ChoiceTable{}.json(), is_short), ChoiceTable{});
  EXPECT_EQ(table.find("another", "x"), "c");
  EXPECT_FALSE(table.find("another", "y"));
  EXPECT_FALSE(table.find("a third", "x"));
}

TEST(ChoiceTable, RefusesWaysThatTheMachineDoesNotKnow) {
  EXPECT_NO_THROW(ChoiceTable::parse(R"({"mm": {"x": "a"}})", is_short));
  EXPECT_THROW(ChoiceTable::parse(R"({"mm": {"x": "aaa"}})", is_short), ConfigError);
}

TEST(ChoiceTable, RoundsExtentsToThreeBits) {
  EXPECT_EQ(extents_key(256, 2304, 7), "256 2560 7");
  EXPECT_EQ(extents_key(256, 2500, 9), "256 2560 10");
}

TEST(Algorithm, ReadsBackItsText) {
  EXPECT_EQ(cuda::algorithm_named(cuda::text_of(kAlgorithm)), kAlgorithm);
  EXPECT_FALSE(cuda::algorithm_named("openblas"));
  EXPECT_FALSE(cuda::algorithm_named("cublaslt:12"));
}

TEST(GemmChoices, NameWhatIsWrongWithAText) {
  for (const std::string text :
       {"", "{", "[1]", R"({"cuda: a": 3})", R"({"cuda: a": {"x": 7}})", R"({"AMD": {"x": 7}})",
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
  // Beside those that this process made before.
  const std::vector<std::string> both{merged, gemm_choices()};
  EXPECT_EQ(merged_gemm_choices(both), gemm_choices());
  EXPECT_EQ(cuda::process_choices().find(kH100, "x"), cuda::text_of(kAlgorithm));
}

TEST(GemmChoices, GivenLaterComeBeforeThoseMade) {
  const int before = cuda::process_choices().generation();
  cuda::process_choices().set("cuda: here", "x", cuda::text_of({}));
  ChoiceTable given;
  given.set("cuda: here", "x", cuda::text_of(kAlgorithm));
  use_gemm_choices(given.json());
  EXPECT_EQ(cuda::process_choices().find("cuda: here", "x"), cuda::text_of(kAlgorithm));
  EXPECT_EQ(cuda::process_choices().generation(), before + 1);
}

}  // namespace
}  // namespace trireme::ops
