#include "trainer/tools/plan/goodput/save_interval.h"

#include <cmath>

namespace trireme {

double young_interval(double save, double between_failures) {
  return std::sqrt(2 * save * between_failures);
}

double daly_interval(double save, double between_failures) {
  if (save >= 2 * between_failures) return between_failures;
  const double ratio = save / (2 * between_failures);
  return young_interval(save, between_failures) * (1 + std::sqrt(ratio) / 3 + ratio / 9) - save;
}

}  // namespace trireme
