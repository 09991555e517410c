#include "trainer/tools/plan/calibrate/stopwatch.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <span>

#include "model/tensor/host_tensor.h"

namespace trireme {
namespace {

// Seconds of a sample; with many ranks several time slices of the scheduler for each that shares a
// core.
constexpr double kSpellAlone = 0.008, kSpellOfMany = 0.016;
using Spells = std::array<double, 3>;

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double spell_of(const Communicator& ranks) {
  if (ranks.size() == 1) return kSpellAlone;
  const double sharing = ranks.size() / static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  return kSpellOfMany * std::max(sharing, 1.0);
}

double median(Spells spells) {
  std::sort(spells.begin(), spells.end());
  return spells[spells.size() / 2];
}

}  // namespace

double Stopwatch::alone(const Work& work) {
  work();
  const double spell = spell_of(ranks_);
  // Between two looks at the clock.
  const int calls = stream_.on_cuda() ? calls_of_a_spell(work) : 1;
  ranks_.barrier(host_);
  Spells done = {};  // calls per second, summed over ranks
  for (double& in_spell : done) {
    const double start = now();
    int count = 0;
    double passed = 0;
    for (; passed < spell; passed = now() - start) {
      for (int i = 0; i < calls; ++i) work();
      stream_.synchronize();
      count += calls;
    }
    in_spell = count / passed;
  }
  ranks_.all_reduce(host_, host_tensor(std::span(done)), Reduce::kSum);
  return ranks_.size() / median(done);
}

double Stopwatch::together(const Work& work) {
  work();
  const int count = calls_of_a_spell(work);
  Spells spells = {};
  for (double& spell : spells) {
    ranks_.barrier(host_);
    const double begin = now();
    for (int i = 0; i < count; ++i) work();
    stream_.synchronize();
    spell = (now() - begin) / count;
  }
  ranks_.all_reduce(host_, host_tensor(std::span(spells)), Reduce::kSum);
  return median(spells) / ranks_.size();
}

// The same on all ranks.
int Stopwatch::calls_of_a_spell(const Work& work) {
  stream_.synchronize();
  const double start = now();
  work();
  stream_.synchronize();
  double once[] = {now() - start};
  ranks_.all_reduce(host_, host_tensor(std::span(once)), Reduce::kMax);
  return static_cast<int>(std::clamp(spell_of(ranks_) / once[0], 1.0, 1000.0));
}

}  // namespace trireme
