#pragma once
#include <deque>
#include <functional>
#include <limits>
#include <mutex>
#include <utility>

#include "model/device/copy.h"
#include "model/ops/elementwise.h"
#include "parallel/comm/self_communicator.h"
#include "parallel/optimizer/optimizer.h"
#include "parallel/optimizer/registry.h"
#include "parallel/optimizer/strided_of.h"
#include "tests/parallel/thread_communicator.h"

namespace trireme::test {

using Tensors = std::map<std::string, std::vector<double>>;

// A training run of a rule over ranks that are threads: shard x tensor of them, whose shards
// are cut at odd places.
struct RuleRun {
  OptimizerOptions options;
  int shard = 1, tensor = 1;
  DType compute = DType::kF32;
  int steps = 50;
  double learning_rate = 0.01, grad_scale = 0.8;
  int skipped = 0;  // the step whose scale is NaN; 0: none
  std::function<void(ParamStore&, Slice)> declare;
  // The loss of logical weights at a step, and their gradients.
  std::function<double(const Tensors&, int, Tensors&)> loss;

  struct Result {
    std::vector<double> losses;
    Tensors initial, weights, values, state;  // logical; weights are the masters
  };
  Result run() const;

 private:
  struct Rank;
};

// One rank's parameters, shards and rule.
struct RuleRun::Rank {
  static constexpr std::size_t kRoom = std::size_t{1} << 23;
  Rank(const RuleRun& how, ThreadGroup& shards, ThreadGroup& tensors, int shard, int tensor)
      : shard_(shards, shard), tensor_(tensors, tensor) {
    how.declare(store, {tensor, how.tensor});
    store.allocate({weights, masters, &gradients}, how.compute);
    store.initialize(1);
    rule = make_optimizer(how.options, {shard_, tensor_});
    for (const Weight& weight : store.weights()) {
      for (const Param& param : weight.parts) cut(param, how.shard, shard);
    }
    rule->prepare(store, owned, workspace);
    scale = workspace.take({1}, accumulator());
  }
  DType accumulator() const { return store.grads().dtype; }

  // Shards meet in the middle of rows; what is small is the last rank's alone, and what is
  // large comes in two shards.
  void cut(const Param& param, int shards, int number) {
    const std::int64_t count = param.box.extent.count();
    const auto border = [&](int s) {
      if (s == 0) return std::int64_t{0};
      return s == shards ? count : count < 10 ? 0 : (count * s / shards) | 1;
    };
    const std::int64_t from = border(number), to = border(number + 1);
    const std::int64_t middle = to - from > 10 ? from + (to - from) / 3 : to;
    add(param, from, middle);
    add(param, middle, to);
  }
  void add(const Param& param, std::int64_t from, std::int64_t to) {
    if (from == to) return;
    const auto part = [&](const Tensor& whole) { return whole.slice(from, to - from); };
    ParamShard& shard = owned.emplace_back();
    shard.param = &param;
    shard.first = from;
    shard.value = part(param.value);
    shard.master = part(param.master);
    shard.grad = part(param.grad);
    std::size_t k = 0;
    for (const Optimizer::State& each : rule->state(param.spec, accumulator())) {
      shard.state[k++] = state.take({to - from}, each.dtype);
    }
  }

  // Where element i of a shard lies in its logical tensor.
  static std::size_t index(const ParamShard& shard, std::int64_t i) {
    const ops::Strided where = strided_of(*shard.param, shard.first);
    const std::int64_t at = where.first + i;
    return static_cast<std::size_t>(at / where.run * where.stride + where.start + at % where.run);
  }
  static void each(const Tensor& tensor, const std::function<double(std::int64_t, double)>& body) {
    with_float(tensor.dtype, [&](auto zero) {
      using T = decltype(zero);
      using A = Accumulator<T>;
      for (std::int64_t i = 0; i < tensor.count(); ++i) {
        T& value = tensor.as<T>()[i];
        value = T(static_cast<A>(body(i, static_cast<double>(static_cast<A>(value)))));
      }
    });
  }
  void take_gradients(const Tensors& grads) const {
    for (const ParamShard& shard : owned) {
      const std::vector<double>& from = grads.at(shard.param->spec.name);
      each(shard.grad, [&](std::int64_t i, double) { return from[index(shard, i)]; });
    }
  }
  static void show(const ParamShard& shard, const Tensor& tensor, const std::string& name,
                   Tensors& to) {
    std::vector<double>& all = to.at(name);
    each(tensor, [&](std::int64_t i, double value) { return all[index(shard, i)] = value; });
  }

  ThreadCommunicator shard_, tensor_;
  Arena weights{kRoom}, masters{kRoom}, gradients{kRoom}, state{kRoom}, workspace{kRoom};
  ParamStore store;
  std::unique_ptr<Optimizer> rule;
  std::vector<ParamShard> owned;
  Tensor scale;
};

inline RuleRun::Result RuleRun::run() const {
  const int ranks = shard * tensor;
  ThreadGroup all_ranks(ranks);
  std::deque<ThreadGroup> shards, tensors;
  for (int t = 0; t < tensor; ++t) shards.emplace_back(shard);
  for (int s = 0; s < shard; ++s) tensors.emplace_back(tensor);
  std::vector<ThreadGroup*> groups{&all_ranks};
  for (ThreadGroup& group : shards) groups.push_back(&group);
  for (ThreadGroup& group : tensors) groups.push_back(&group);

  Result result;
  std::mutex mutex;
  run_ranks(ranks, groups, [&](int number) {
    const int s = number / tensor, t = number % tensor;
    Rank rank(*this, shards[static_cast<std::size_t>(t)], tensors[static_cast<std::size_t>(s)], s,
              t);
    ThreadCommunicator all(all_ranks, number);
    Stream stream;
    // Every element is shown by all who hold it, and all hold the same.
    const auto show = [&] {
      const std::lock_guard guard(mutex);
      for (const ParamShard& part : rank.owned) {
        const std::string& name = part.param->spec.name;
        const auto room = static_cast<std::size_t>(part.param->spec.shape.count());
        result.weights[name].resize(room);
        result.values[name].resize(room);
        Rank::show(part, part.master, name, result.weights);
        Rank::show(part, part.value, name, result.values);
        const auto states = rank.rule->state(part.param->spec, rank.accumulator());
        for (std::size_t k = 0; k < states.size(); ++k) {
          const std::string held = states[k].name + "/" + name;
          result.state[held].resize(room);
          Rank::show(part, part.state[k], held, result.state);
        }
      }
    };
    show();
    all.barrier(stream);
    if (number == 0) result.initial = result.weights;
    const std::size_t taken = rank.workspace.used();
    int update = 0;
    for (int step = 1; step <= steps; ++step) {
      Tensors grads;
      const double loss_now = loss(result.weights, step, grads);
      if (number == 0) result.losses.push_back(loss_now);
      all.barrier(stream);
      rank.take_gradients(grads);
      const bool skip = step == skipped;
      const double factor = skip ? std::numeric_limits<double>::quiet_NaN() : grad_scale;
      Rank::each(rank.scale, [&](std::int64_t, double) { return factor; });
      rank.rule->update({stream, rank.scale, learning_rate, ++update}, rank.owned);
      if (skip) --update;
      show();
      all.barrier(stream);
    }
    require(rank.workspace.used() == taken, "an update took workspace for good");
  });
  return result;
}

}  // namespace trireme::test
