#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "model/base/error.h"
#include "model/base/human.h"
#include "model/base/median.h"
#include "model/tensor/arena.h"
#include "model/tensor/host_mirror.h"
#include "model/tensor/host_tensor.h"
#include "trainer/supervise/preflight/check.h"
#include "trainer/telemetry/clock.h"

namespace trireme::preflight {
namespace {

// Test value of a rank: a small integer, so that float32 sums are exact in any order.
float pattern(int rank, std::int64_t index) {
  return static_cast<float>((13 * rank + 7 * index) % 251 - 125);
}

// Device buffers for one all-reduce or ring message of a group, with known results.
class Trial {
 public:
  Trial(Communicator& group, std::int64_t count, Arena& arena)
      : group_(group),
        stream_(arena.device()),
        own_(stream_, arena.take({count})),
        received_(stream_, arena.take({count})) {}
  static std::size_t bytes(std::int64_t count) {
    return 2 * (static_cast<std::size_t>(count) * 4 + Arena::kAlignment);
  }

  double sum() {
    fill();
    group_.barrier(stream_);
    const double start = seconds_now();
    group_.all_reduce(stream_, own_.tensor(), Reduce::kSum);
    stream_.synchronize();
    return seconds_now() - start;
  }
  std::int64_t wrong_sums() {
    return wrong(own_, [this](std::int64_t i) {
      float sum = 0;
      for (int rank = 0; rank < group_.size(); ++rank) sum += pattern(rank, i);
      return sum;
    });
  }

  // Each rank sends to the next and receives from the previous one.
  double message() {
    fill();
    group_.barrier(stream_);
    const int size = group_.size(), rank = group_.rank();
    const double start = seconds_now();
    Transfer coming = group_.start_receive(stream_, received_.tensor(), before());
    Transfer going = group_.start_send(stream_, own_.tensor(), (rank + 1) % size);
    coming.wait();
    going.wait();
    stream_.synchronize();
    return seconds_now() - start;
  }
  std::int64_t wrong_messages() {
    return wrong(received_, [this](std::int64_t i) { return pattern(before(), i); });
  }

 private:
  int before() const { return (group_.rank() + group_.size() - 1) % group_.size(); }
  void fill() {
    auto* numbers = reinterpret_cast<float*>(own_.host().data);
    for (std::int64_t i = 0; i < own_.host().count(); ++i) numbers[i] = pattern(group_.rank(), i);
    own_.upload(stream_);
    stream_.synchronize();
  }
  template <class Must>
  std::int64_t wrong(const HostMirror& mirror, const Must& must) {
    mirror.download(stream_);
    stream_.synchronize();
    const auto* numbers = reinterpret_cast<const float*>(mirror.host().data);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < mirror.host().count(); ++i) wrong += numbers[i] != must(i) ? 1 : 0;
    return wrong;
  }

  Communicator& group_;
  Stream stream_;
  HostMirror own_, received_;
};

struct Axis {
  const char* name;
  Communicator* group;
  bool sends;  // point-to-point messages; otherwise all-reduce
};

Figures measured_axis(const Axis& axis, std::int64_t count, Arena& arena) {
  constexpr int kSmallTimes = 10, kLargeTimes = 3;
  const auto run = [&](Trial& trial) {
    double seconds[] = {axis.sends ? trial.message() : trial.sum()};
    Stream stream;  // a call takes as long as on its slowest rank
    axis.group->all_reduce(stream, host_tensor(std::span(seconds)), Reduce::kMax);
    return seconds[0];
  };
  const auto wrong = [&](Trial& trial) {
    return axis.sends ? trial.wrong_messages() : trial.wrong_sums();
  };
  arena.reset();
  Trial small(*axis.group, 1, arena);
  double latency = 1e9;
  for (int i = 0; i < kSmallTimes; ++i) latency = std::min(latency, run(small));
  std::int64_t bad = wrong(small);
  Trial large(*axis.group, count, arena);
  double seconds = 1e9;
  for (int i = 0; i < kLargeTimes; ++i) {
    seconds = std::min(seconds, run(large));
    bad += wrong(large);
  }
  // Bus bandwidth: bytes each rank must send in a bandwidth-optimal all-reduce.
  const double ranks = axis.group->size();
  const double travels = axis.sends ? 1 : 2 * (ranks - 1) / ranks;
  return {{"ranks", axis.group->size()},
          {"latency_s", latency},
          {"bytes_per_second", travels * 4 * static_cast<double>(count) / seconds},
          {"wrong", bad}};
}

std::vector<Axis> axes_of(const RankGroups& groups) {
  std::vector<Axis> all{{"tensor", groups.tensor.get(), false},
                        {"context", groups.context.get(), false},
                        {"pipeline", groups.pp_forward.get(), true},
                        {"data_shard", groups.shard.get(), false},
                        {"data_replicate", groups.replicate.get(), false},
                        {"expert", groups.expert.get(), false},
                        {"all", groups.all.get(), false}};
  std::erase_if(all,
                [](const Axis& axis) { return axis.group == nullptr || axis.group->size() == 1; });
  return all;
}

// Buffers for the trials. Null on all ranks if one of them has no memory, which throws: the others
// must not wait for it.
std::unique_ptr<Arena> take_memory(Communicator& all, std::size_t bytes, Device device) {
  std::unique_ptr<Arena> arena;
  std::optional<EnvironmentError> failure;
  try {
    arena = std::make_unique<Arena>(bytes, device);
  } catch (const EnvironmentError& error) {
    failure = error;
  }
  std::int32_t missing[] = {failure ? 1 : 0};
  Stream stream;
  all.all_reduce(stream, host_tensor(std::span(missing)), Reduce::kMax);
  if (failure) throw EnvironmentError(*failure);
  if (missing[0] != 0) arena.reset();
  return arena;
}

Figures measure_axes(const RankGroups& groups, Device device, bool thorough) {
  Figures found = Figures::object();
  std::string wrong;
  const std::int64_t count = thorough ? 4 << 20 : 64 << 10;
  const auto arena = take_memory(*groups.all, Trial::bytes(1) + Trial::bytes(count), device);
  if (!arena) return found;
  for (const Axis& axis : axes_of(groups)) {
    found[axis.name] = measured_axis(axis, count, *arena);
    if (found[axis.name]["wrong"] > 0) {
      wrong += fmt::format("{}{} wrong values in a {} along the {} axis", wrong.empty() ? "" : ", ",
                           found[axis.name]["wrong"].get<int>(), axis.sends ? "message" : "sum",
                           axis.name);
    }
  }
  // Thrown only now: until here the other ranks needed this rank's calls.
  if (!wrong.empty()) throw EnvironmentError(wrong);
  return found;
}

Judgment judge_axes(const std::vector<Figures>& by_rank) {
  Judgment judgment;
  for (const auto& [name, first] : by_rank.front().items()) {
    std::vector<Figures> of_axis;
    for (const Figures& figures : by_rank) of_axis.push_back(figures.at(name));
    const std::vector<double> rates = numbers_of(of_axis, "bytes_per_second");
    const auto slowest = std::min_element(rates.begin(), rates.end());
    judgment.text += fmt::format(
        "{}{} {}: {:.0f} us, {}/s, slowest {}/s (rank {})", judgment.text.empty() ? "" : "; ", name,
        first["ranks"].get<int>(), 1e6 * median(numbers_of(of_axis, "latency_s")),
        human_bytes(static_cast<std::uint64_t>(median(rates))),
        human_bytes(static_cast<std::uint64_t>(*slowest)), slowest - rates.begin());
  }
  if (judgment.text.empty()) judgment.text = "one rank, no communication";
  return judgment;
}

}  // namespace

Check axes(const RankGroups& groups, Device device, bool thorough) {
  return {"axes", [&groups, device, thorough] { return measure_axes(groups, device, thorough); },
          judge_axes};
}

}  // namespace trireme::preflight
