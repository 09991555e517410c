#include "trainer/tools/plan/goodput/goodput_model.h"

#include <algorithm>
#include <cmath>

namespace trireme {
namespace {

double sum_over(const FailureModel& model, const auto& of_kind) {
  double sum = 0;
  for (const FailureKind& kind : model.kinds) sum += kind.share * of_kind(kind);
  return sum;
}

double node_share(const FailureModel& model) {
  return sum_over(model, [](const FailureKind& kind) { return kind.loses_node ? 1.0 : 0.0; });
}

// Expected seconds in training, without recoveries, from one checkpoint to the next. Let a cycle
// be the work before a snapshot and the snapshot, and V(i) the expected time that remains after i
// of n cycles. A cycle takes (1 - a) / rate on average until it ends or fails, ends with a =
// exp(-rate cycle), and leads otherwise back to its begin or, with probability q, to the
// checkpoint:
//   V(i) = (1 - a) / rate + a V(i + 1) + (1 - a) ((1 - q) V(i) + q V(0)).
double time_between_checkpoints(const FailureModel& model, const SaveIntervals& intervals) {
  const double rate = 1 / model.between, q = model.disk_share();
  struct Cycle {
    double time, back;  // until it is left, and probability that it is left to the checkpoint
    Cycle(double seconds, double rate, double q) {
      const double fails = -std::expm1(-rate * seconds);
      const double leaves = 1 - fails * (1 - q);
      time = fails / rate / leaves;
      back = fails * q / leaves;
    }
  };
  const double cycle = intervals.seconds + model.snapshot;
  const Cycle usual(cycle, rate, q), last(cycle + model.save, rate, q);
  const double others = intervals.per_disk - 1;
  const double ends_log = others * std::log1p(-usual.back);
  const double tries = usual.back > 0 ? -std::expm1(ends_log) / usual.back : others;
  const double ends = std::exp(ends_log);
  return (usual.time * tries + ends * last.time) / (ends * (1 - last.back));
}

}  // namespace

double FailureModel::disk_share() const {
  return sum_over(*this, [](const FailureKind& kind) { return kind.from_disk ? 1.0 : 0.0; });
}

double FailureModel::missing_nodes() const {
  return node_share(*this) * repair.seconds / between;
}

double FailureModel::between_disk_failures() const {
  return between / disk_share();
}

double FailureModel::between_memory_failures() const {
  return between / (1 - disk_share());
}

GoodputShares expected_goodput(const FailureModel& model, const SaveIntervals& intervals) {
  const double rate = 1 / model.between;
  // Of the attempts to recover, of which each failure begins one.
  const double training = sum_over(model, [&](const FailureKind& kind) {
    return std::exp(-rate * (kind.detect + kind.restart));
  });
  GoodputShares shares;
  shares.detection =
      sum_over(model, [&](const FailureKind& kind) { return -std::expm1(-rate * kind.detect); });
  shares.restart = std::max(1 - training - shares.detection, 0.0);
  const double block = time_between_checkpoints(model, intervals);
  const double work = intervals.seconds * intervals.per_disk;
  const double saves = intervals.per_disk * model.snapshot + model.save;
  // A checkpoint that is still being written is lost too.
  const double unwritten = rate * model.disk_share() * model.write;
  const double kept = std::isfinite(block) ? std::max(work / block - unwritten, 0.0) : 0;
  shares.saves = training * kept * saves / work;
  shares.useful = training * kept;
  shares.lost_steps = std::max(training - shares.useful - shares.saves, 0.0);
  if (model.repair.seconds > 0) {
    const double grows = std::min(rate * node_share(model) * model.repair.growth, 1.0);
    for (const GoodputPart& part : kGoodputLosses) shares.*part.share *= 1 - grows;
    shares.restart += grows;
    shares.useful *= 1 - grows;
    shares.fewer_nodes =
        shares.useful * std::min(model.missing_nodes() * model.repair.speed_lost, 1.0);
    shares.useful -= shares.fewer_nodes;
  }
  return shares;
}

}  // namespace trireme
