#include "trainer/tools/plan/calibrate/machine_pace.h"

#include <algorithm>
#include <ctime>

#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

constexpr std::int64_t kSide = 192;  // fits the second-level cache of a core
// Of the median: a process that was stopped for a while did not become slower. Pauses of some
// milliseconds, when a virtual core waits for its turn, slow down runs too and are not left
// out.
constexpr double kInterrupted = 0.1;

}  // namespace

MachinePace::MachinePace(Device device, DType dtype, double sharing)
    : changes_(!device.is_cuda()), sharing_(sharing), product_(kSide, dtype) {}

double MachinePace::now() const {
  if (sharing_ <= 1) return seconds_now();
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return sharing_ * (static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec));
}

double MachinePace::sample(double seconds) {
  if (!changes_) return 1;
  const double start = now();
  double passed = 0;
  int count = 0;
  for (; passed < seconds; ++count) {
    product_(stream_);
    passed = now() - start;
  }
  return count / passed;
}

double MachinePace::mean_over_first() const {
  std::vector<double> sorted = rates_;
  std::sort(sorted.begin(), sorted.end());
  const double least = kInterrupted * sorted[sorted.size() / 2];
  const auto begin = std::lower_bound(sorted.begin(), sorted.end(), least);
  double sum = 0;
  for (auto rate = begin; rate != sorted.end(); ++rate) sum += *rate;
  return sum / static_cast<double>(sorted.end() - begin) / first();
}

}  // namespace trireme
