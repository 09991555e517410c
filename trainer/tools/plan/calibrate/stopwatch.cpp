#include "trainer/tools/plan/calibrate/stopwatch.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "model/base/median.h"
#include "model/tensor/host_tensor.h"
#include "trainer/telemetry/clock.h"

namespace trireme {
namespace {

// Seconds of a sample by the clock of ranks at work. Of the pace half as long.
constexpr double kSpellAlone = 0.006, kSpellOfMany = 0.012;

double spell_of(const Communicator& ranks) {
  return ranks.size() == 1 ? kSpellAlone : kSpellOfMany;
}

}  // namespace

double Stopwatch::alone(const Work& work) {
  work();
  // Between two looks at the clock.
  const int calls = stream_.on_cuda() ? calls_of_a_spell(work) : 1;
  ranks_.barrier(host_);
  return median_of([&] { return calls_per_second(work, calls); });
}

double Stopwatch::together(const Work& work) {
  work();
  const int count = calls_of_a_spell(work);
  return median_of([&] {
    ranks_.barrier(host_);
    const double begin = seconds_now();
    for (int i = 0; i < count; ++i) work();
    stream_.synchronize();
    return count / (seconds_now() - begin);
  });
}

void Stopwatch::sample_pace() {
  double rate[] = {pace_.sample(spell_of(ranks_) / 2)};
  ranks_.all_reduce(host_, host_tensor(std::span(rate)), Reduce::kSum);
  pace_.add(rate[0] / ranks_.size());
}

// Seconds of a call by samples of this rank's calls per second. Between samples the pace's.
double Stopwatch::median_of(const std::function<double()>& calls_per_second) {
  const double spell = spell_of(ranks_) / 2;
  std::vector<double> calls, paces = {pace_.sample(spell)};
  for (std::size_t i = 0; i < samples_; ++i) {
    calls.push_back(calls_per_second());
    paces.push_back(pace_.sample(spell));
  }
  ranks_.all_reduce(host_, host_tensor(std::span(calls)), Reduce::kSum);
  ranks_.all_reduce(host_, host_tensor(std::span(paces)), Reduce::kSum);
  for (const double pace : paces) pace_.add(pace / ranks_.size());
  for (std::size_t i = 0; i < samples_; ++i) calls[i] /= (paces[i] + paces[i + 1]) / 2;
  return 1 / (median(std::move(calls)) * pace_.first());
}

double Stopwatch::calls_per_second(const Work& work, int calls) {
  const double spell = spell_of(ranks_), start = pace_.now();
  int count = 0;
  double passed = 0;
  for (; passed < spell; passed = pace_.now() - start) {
    for (int i = 0; i < calls; ++i) work();
    stream_.synchronize();
    count += calls;
  }
  return count / passed;
}

// The same on all ranks.
int Stopwatch::calls_of_a_spell(const Work& work) {
  stream_.synchronize();
  const double start = seconds_now();
  work();
  stream_.synchronize();
  double once[] = {seconds_now() - start};
  ranks_.all_reduce(host_, host_tensor(std::span(once)), Reduce::kMax);
  // Several time slices of the scheduler for each rank that shares a core.
  const double spell = pace_.sharing() * spell_of(ranks_);
  return static_cast<int>(std::clamp(spell / once[0], 1.0, 1000.0));
}

}  // namespace trireme
