#include "parallel/tensor/partial_gradients.h"

#include <algorithm>

#include "model/ops/elementwise.h"
#include "model/params/cut.h"

namespace trireme {
namespace {

// Appends a range, or extends the last one if the two are contiguous.
void add_run(std::vector<Tensor>& runs, Tensor gradient) {
  gradient = gradient.reshaped({gradient.count()});
  if (!runs.empty() && runs.back().data + runs.back().bytes() == gradient.data) {
    runs.back().shape[0] += gradient.count();
  } else {
    runs.push_back(gradient);
  }
}

}  // namespace

int key_value_replicas(const ModelConfig& model, int ranks) {
  return cut_pieces(0, model.num_key_value_heads, {0, ranks}).replica.count;
}

PartialGradients::PartialGradients(ParamStore& params, const std::vector<Communicator*>& groups,
                                   Arena& messages, std::int64_t large) {
  for (Communicator* ranks : groups) groups_.push_back({ranks, {}, {}, {}});
  for (const ParamShard& shard : params.shards()) {
    const ParamSpec& spec = shard.param->spec;
    const Slice replica = spec.cut.replica;
    if (!spec.partial || replica.count == 1) continue;
    const auto group = std::find_if(groups_.begin(), groups_.end(), [&](const Group& candidate) {
      return candidate.ranks->size() == replica.count;
    });
    require(group != groups_.end() && group->ranks->rank() == replica.index, "parameter ",
            spec.name, ": no group of the ", replica.count, " replicas of which this is ",
            replica.index);
    add_run(group->small, shard.grad);
  }
  for (Group& group : groups_) {
    const auto first_large =
        std::stable_partition(group.small.begin(), group.small.end(),
                              [&](const Tensor& ctx) { return ctx.count() < large; });
    group.large.assign(first_large, group.small.end());
    group.small.erase(first_large, group.small.end());
    std::int64_t total = 0;
    for (const Tensor& ctx : group.small) total += ctx.count();
    if (total > 0) group.message = messages.take({total}, params.grads().dtype);
  }
}

void PartialGradients::sum(Stream& stream) const {
  for (const Group& group : groups_) {
    for (const Tensor& ctx : group.large) group.ranks->all_reduce(stream, ctx, Reduce::kSum);
    if (group.small.empty()) continue;
    const auto each = [&](const auto& visit) {
      std::int64_t at = 0;
      for (const Tensor& ctx : group.small) {
        visit(ctx, group.message.slice(at, ctx.count()));
        at += ctx.count();
      }
    };
    each([&](Tensor ctx, Tensor place) { ops::copy(stream, place, ctx); });
    group.ranks->all_reduce(stream, group.message, Reduce::kSum);
    each([&](Tensor ctx, Tensor place) { ops::copy(stream, ctx, place); });
  }
}

}  // namespace trireme
