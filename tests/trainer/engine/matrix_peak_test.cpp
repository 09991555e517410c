#include "trainer/engine/matrix_peak.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/base/file.h"
#include "tests/trainer/telemetry/scratch_folder.h"

namespace trireme {
namespace {

using nlohmann::json;

TEST(MatrixPeak, the_most_ever_seen_is_kept_and_damage_is_measured_anew) {
  const ScratchFolder folder;
  const auto file = folder.path() / "cache" / "matrix-peaks.json";
  const auto best = [&] {
    return best_matrix_peak(DType::kF32, Device{}, 2, folder.path() / "cache");
  };
  const double measured = best();
  EXPECT_GT(measured, 0);
  json kept = json::parse(read_text(file));
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept.begin()->get<double>(), measured);

  *kept.begin() = 20 * measured;
  replace_text(file, kept.dump());
  EXPECT_EQ(best(), 20 * measured);
  EXPECT_NE(best_matrix_peak(DType::kF32, Device{}, 1, folder.path() / "cache"), 20 * measured)
      << "of other threads";
  for (const char* const damaged : {"{", "[1]", "7"}) {
    replace_text(file, damaged);
    EXPECT_LT(best(), 20 * measured) << damaged;
    EXPECT_EQ(json::parse(read_text(file)).size(), 1u) << damaged;
  }
  *kept.begin() = 1e30;
  replace_text(file, kept.dump());
  EXPECT_LT(best(), 1e20) << "of no machine";
  EXPECT_GT(best_matrix_peak(DType::kF32, Device{}, 2, {}), 0);
}

}  // namespace
}  // namespace trireme
