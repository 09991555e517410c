#include "trainer/config/flavors.h"

#include <gtest/gtest.h>

#include <map>

namespace trireme {
namespace {

// As published with the models; ours have no published size to meet.
const std::map<std::string, std::int64_t>& published() {
  static const std::map<std::string, std::int64_t> kSizes{
      {"gpt2-124m", 124'439'808},
      {"gpt2-355m", 354'823'168},
      {"gpt2-774m", 774'030'080},
      {"gpt2-1.5b", 1'557'611'200},
      {"llama2-7b", 6'738'415'616},
      {"llama3.2-1b", 1'235'814'400},
      {"llama3.2-3b", 3'212'749'824},
      {"llama3-8b", 8'030'261'248},
      {"llama3-70b", 70'553'706'496},
      {"llama3-405b", 405'853'388'800},
      {"mistral-7b", 7'248'023'552},
      {"mistral-small-24b", 23'572'403'200},
      {"qwen2.5-0.5b", 494'032'768},
      {"qwen2.5-1.5b", 1'543'714'304},
      {"qwen2.5-3b", 3'085'938'688},
      {"qwen2.5-7b", 7'615'616'512},
      {"qwen3-0.6b", 596'049'920},
      {"qwen3-1.7b", 1'720'574'976},
      {"qwen3-4b", 4'022'468'096},
      {"qwen3-8b", 8'190'735'360},
      {"qwen3-14b", 14'768'307'200},
      {"qwen3-32b", 32'762'123'264},
      {"mistral-7b-v0.1", 7'241'732'096},
      {"smollm3-3b", 3'075'098'624},
      {"phi3-mini", 3'821'079'552},
      {"phi4", 14'659'507'200},
      {"granite3-2b", 2'533'531'648},
      {"granite3-8b", 8'170'848'256},
      {"olmo2-1b", 1'484'916'736},
      {"olmo2-7b", 7'298'617'344},
      {"olmo2-13b", 13'716'198'400},
      {"olmo2-32b", 32'234'279'936},
      {"olmo3-7b", 7'298'011'136},
      {"olmo3-32b", 32'233'522'176},
      {"gemma2-2b", 2'614'341'888},
      {"gemma2-9b", 9'241'705'984},
      {"gemma2-27b", 27'227'128'320},
      {"gemma3-270m", 268'098'176},
      {"gemma3-1b", 999'885'952},
      // What the published sizes leave without the image encoder (416,866,032) and its projection,
      // 1152 (hidden + 1).
      {"gemma3-4b", 4'300'079'472 - 416'866'032 - 1152 * 2561},
      {"gemma3-12b", 12'187'325'040 - 416'866'032 - 1152 * 3841},
      {"gemma3-27b", 27'432'406'640 - 416'866'032 - 1152 * 5377},
      {"glm4-9b", 9'400'279'040},
      // What the published sizes leave without the layer that predicts a further token.
      {"glm4.5-air-106b-a12b", 110'468'824'832 - 3'616'573'568},
      {"glm4.5-355b-a32b", 358'337'791'296 - 5'539'962'272},
      {"mixtral-8x7b", 46'702'792'704},
      {"mixtral-8x22b", 140'630'071'296},
      {"olmoe-7b-a1b", 6'919'161'856},
      {"qwen3-30b-a3b", 30'532'122'624},
      {"qwen3-235b-a22b", 235'093'634'560},
      {"gpt-oss-20b", 20'914'757'184},
      {"gpt-oss-120b", 116'829'156'672},
  };
  return kSizes;
}

TEST(flavors, have_the_published_number_of_parameters) {
  for (const auto& [name, count] : published()) {
    const auto model = find_flavor(name);
    ASSERT_TRUE(model) << name;
    EXPECT_EQ(parameter_count(*model), count) << name;
  }
}

TEST(flavors, with_experts_have_the_published_number_of_active_parameters) {
  const std::map<std::string, double> billions{{"mixtral-8x7b", 12.9},
                                               {"mixtral-8x22b", 39.1},
                                               {"olmoe-7b-a1b", 1.3},
                                               {"qwen3-30b-a3b", 3.3},
                                               {"qwen3-235b-a22b", 22}};
  for (const auto& [name, published] : billions) {
    const double active = static_cast<double>(active_parameter_count(*find_flavor(name))) * 1e-9;
    EXPECT_NEAR(active, published, 0.02 * published) << name;
  }
  // Published without the embedding.
  for (const auto& [name, published] : {std::pair{"gpt-oss-20b", 3.61}, {"gpt-oss-120b", 5.13}}) {
    const ModelConfig model = *find_flavor(name);
    const std::int64_t embedding = model.vocab_size * model.hidden_size;
    const auto active = static_cast<double>(active_parameter_count(model) - embedding);
    EXPECT_NEAR(active * 1e-9, published, 0.005) << name;
  }
  const ModelConfig dense = *find_flavor("qwen3-8b");
  EXPECT_EQ(active_parameter_count(dense), parameter_count(dense));
}

TEST(flavors, are_all_held_to_a_published_size_but_our_own) {
  for (const std::string& name : flavor_names()) {
    const bool is_ours = name == "tiny" || name == "quickstart";
    EXPECT_EQ(published().contains(name), !is_ours) << name;
  }
}

TEST(flavors, of_our_own_train_on_a_laptop) {
  EXPECT_LT(parameter_count(*find_flavor("tiny")), 200'000);
  EXPECT_LT(parameter_count(*find_flavor("quickstart")), 10'000'000);
}

TEST(flavors, that_do_not_exist_are_not_found) {
  EXPECT_FALSE(find_flavor("gpt2"));
  EXPECT_FALSE(find_flavor(""));
}

}  // namespace
}  // namespace trireme
