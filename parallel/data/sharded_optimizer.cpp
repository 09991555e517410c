#include "parallel/data/sharded_optimizer.h"

#include <algorithm>

#include "model/ops/optimizer.h"

namespace trireme {

ShardedOptimizer::ShardedOptimizer(ParamStore& store, const ParamStore& whole, Ranks ranks,
                                   const Options& options, Arena& state, Arena& workspace)
    : recorder_(ranks.recorder),
      options_(options),
      workspace_(workspace),
      squares_(store, whole, ranks.slice, ranks.norm, workspace),
      optimizer_(make_optimizer(options.rule, ranks.update)) {
  for (const ParamStore::Owned& owned : store.owned()) {
    ranges_.push_back({.param = owned.param,
                       .first = owned.first,
                       .value = owned.value,
                       .master = owned.master,
                       .grad = owned.grad,
                       .state = {}});
  }
  take_states(store, state);
  const Device device = store.values().device;
  if (!(state.device() == device) || !(store.masters().device == device)) {
    staging_.emplace(ranges_);
    for (UpdateRange& range : ranges_) range.staging = &*staging_;
  }
  optimizer_->prepare(store, ranges_, workspace);
  const DType type = store.grads().dtype;
  norm_ = workspace.take({1}, type);
  scale_ = workspace.take({1}, type);
}

void ShardedOptimizer::take_states(const ParamStore& store, Arena& state) {
  constexpr std::int64_t kAligned = 64;  // elements: every range starts at a cache line
  struct Place {
    std::size_t state;
    std::int64_t at, count;
  };
  std::vector<std::vector<Place>> places;  // by range
  std::vector<std::int64_t> sizes;
  std::vector<DType> dtypes;
  for (const ParamStore::Owned& owned : store.owned()) {
    places.emplace_back();
    for (const Optimizer::State& kept : optimizer_->state(owned.param->spec, store.grads().dtype)) {
      const auto found = std::find_if(states_.begin(), states_.end(),
                                      [&](const State& known) { return known.name == kept.name; });
      const auto index = static_cast<std::size_t>(found - states_.begin());
      if (found == states_.end()) {
        states_.push_back({kept.name, {}, {}});
        sizes.push_back(0);
        dtypes.push_back(kept.dtype);
      }
      states_[index].parts.push_back({&owned, sizes[index]});
      places.back().push_back({index, sizes[index], owned.count});
      sizes[index] += (owned.count + kAligned - 1) / kAligned * kAligned;
    }
  }
  for (std::size_t i = 0; i < states_.size(); ++i) {
    states_[i].flat = state.take({sizes[i]}, dtypes[i]);
  }
  for (std::size_t r = 0; r < ranges_.size(); ++r) {
    for (const Place& place : places[r]) {
      ranges_[r].state.push_back(states_[place.state].flat.slice(place.at, place.count));
    }
  }
}

void ShardedOptimizer::step(Stream& stream, double learning_rate, std::int64_t update,
                            double norm_limit, double loss_scale) {
  using flight::Phase;
  const auto enter = [&](Phase phase) {
    if (recorder_ && stream.executes()) recorder_->enter(phase);
  };
  enter(Phase::kGradNorm);
  ops::clip_scale(stream, norm_, scale_, squares_.squares(stream),
                  {options_.max_norm, norm_limit, loss_scale});
  enter(Phase::kOptimizer);
  with_staging(stream, [&] { optimizer_->update(stream, ranges_, scale_, learning_rate, update); });
}

void ShardedOptimizer::publish_masters(Stream& stream, std::int64_t update) {
  with_staging(stream, [&] { trireme::publish_masters(stream, options_.rule, ranges_, update); });
}

template <class Body>
void ShardedOptimizer::with_staging(Stream& stream, const Body& body) {
  const Arena::Frame frame(workspace_);
  if (staging_) staging_->begin(stream, workspace_);
  body();
  if (staging_) staging_->end(stream);
}

}  // namespace trireme
