#include "trainer/engine/matrix_peak.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/base/file.h"
#include "tests/trainer/telemetry/scratch_folder.h"

namespace trireme {
namespace {

using nlohmann::json;

class MatrixPeak : public testing::Test {
 protected:
  double best(int threads = 2) {
    return best_matrix_peak(DType::kF32, Device{}, threads, folder_.path() / "cache");
  }
  // The one entry of the cache.
  json kept() const {
    const json peaks = json::parse(read_text(file_));
    EXPECT_EQ(peaks.size(), 1u);
    key_ = peaks.begin().key();
    return peaks.begin().value();
  }
  void keep(const json& entry) { replace_text(file_, json{{key_, entry}}.dump()); }

  const ScratchFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "cache" / "matrix-peaks.json";
  mutable std::string key_;
};

TEST_F(MatrixPeak, is_measured_once_in_an_hour_and_the_most_ever_seen_is_kept) {
  const double measured = best();
  EXPECT_GT(measured, 0);
  const json first = kept();
  EXPECT_EQ(first["flops_per_second"].get<double>(), measured);
  const auto now = first["measured_at"].get<std::int64_t>();

  keep({{"flops_per_second", measured / 64}, {"measured_at", now}});
  EXPECT_EQ(best(), measured / 64) << "measured though it was not an hour ago";
  for (const std::int64_t other_time : {now - 7200, now + 7200}) {
    keep({{"flops_per_second", measured / 64}, {"measured_at", other_time}});
    EXPECT_GT(best(), measured / 64) << "not measured again";
    EXPECT_GE(kept()["measured_at"].get<std::int64_t>(), now);
    keep({{"flops_per_second", 20 * measured}, {"measured_at", other_time}});
    EXPECT_EQ(best(), 20 * measured);
  }
  EXPECT_LT(best(1), 20 * measured) << "of other threads";
  EXPECT_GT(best_matrix_peak(DType::kF32, Device{}, 2, {}), 0);
}

TEST_F(MatrixPeak, that_is_damaged_is_measured_anew) {
  const double measured = best();
  const auto now = kept()["measured_at"].get<std::int64_t>();
  for (const char* const damaged : {"{", "[1]", "7"}) {
    replace_text(file_, damaged);
    EXPECT_LT(best(), 20 * measured) << damaged;
    EXPECT_EQ(json::parse(read_text(file_)).size(), 1u) << damaged;
  }
  for (const json& damaged : {json(20 * measured), json{{"flops_per_second", "much"}},
                              json{{"flops_per_second", 1e30}, {"measured_at", now}},
                              json{{"flops_per_second", 1e17}, {"measured_at", now - 7200}},
                              json{{"flops_per_second", -1.0}, {"measured_at", now}}}) {
    keep(damaged);
    const double found = best();
    EXPECT_TRUE(found > 0 && found < 20 * measured) << damaged;
  }
}

}  // namespace
}  // namespace trireme
