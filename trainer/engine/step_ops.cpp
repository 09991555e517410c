#include "trainer/engine/step_ops.h"

#include <algorithm>

#include "model/stage/layer_config.h"
#include "trainer/engine/model_state.h"
#include "trainer/engine/sequence_shards.h"

namespace trireme {
namespace {

// A rank with one stage, on a planning stream.
class PartWalk {
 public:
  // `groups` outlives it.
  PartWalk(const EngineSpec& spec, const RankGroups& groups, Device device, BlockRange blocks)
      : spec_(spec),
        stream_(device, tally_),
        arenas_(Arenas::unbounded(device, {1}, {})),
        model_(spec_, {blocks}, groups, stream_, arenas_, progress_),
        batch_{.sequences = spec_.training.local_batch_size,
               .seq_len =
                   spec_.training.seq_len / (divides_sequences(spec) ? groups.context->size() : 1),
               .documents = spec_.data.document_mask} {
    const auto table = [&] { return arenas_.data.take({batch_.tokens()}, DType::kI32); };
    batch_.ids = table();
    batch_.targets = table();
    batch_.positions = table();
    batch_.document_start = table();
    if (spec_.training.dropout.any()) batch_.dropout_words = table();
    if (groups.context->size() > 1) {
      batch_.shard =
          SequenceShards(stream_, arenas_.data, SequenceShards::size(spec_, *groups.context))
              .shard(0);
    }
    boundary_ = arenas_.communication.take(stage().boundary(batch_.tokens()), spec.compute);
  }

  PartOps record(Recorded recorded = Recorded::kAll);
  double boundary_bytes() const { return static_cast<double>(boundary_.bytes()); }

 private:
  const Stage& stage() const { return *model_.stages().front(); }
  template <class Body>
  void pass(PartOps::List& list, const Body& body);

  const EngineSpec spec_;
  Tally tally_;
  Stream stream_;
  Arenas arenas_;
  StepProgress progress_{nullptr};
  ModelState model_;
  MicroBatch batch_;
  Tensor boundary_;
};

// Records a forward or a backward.
template <class Body>
void PartWalk::pass(PartOps::List& list, const Body& body) {
  // Forgets the weights that ZeRO-3 has gathered: between two passes other layers replace them.
  tally_.ops = nullptr;
  model_.publish(stream_);
  tally_.ops = &list;
  ExecContext ctx{stream_, arenas_.activations.front(), arenas_.workspace};
  body(ctx);
}

PartOps PartWalk::record(Recorded recorded) {
  PartOps ops;
  Stage::Saved saved;
  model_.begin_gradients(spec_.micro_batches);
  for (std::int64_t m = 0; m < spec_.micro_batches; ++m) {
    ops = {};
    arenas_.activations.front().reset();
    pass(ops.forward, [&](ExecContext& ctx) { stage().forward(ctx, batch_, boundary_, saved); });
    ops.saved_bytes = static_cast<double>(arenas_.activations.front().used());
    pass(ops.backward, [&](ExecContext& ctx) { stage().backward(ctx, boundary_, saved); });
    ops.workspace_bytes = static_cast<double>(arenas_.workspace.peak());
  }
  // Schedules that split backwards reduce no gradients in them.
  const bool is_block = !stage().is_first() && !stage().is_last();
  if (is_block && spec_.parallelism.zero < 2 && !spec_.job.reproducible) {
    pass(ops.backward_input,
         [&](ExecContext& ctx) { stage().backward_input(ctx, boundary_, saved); });
  }
  tally_.ops = &ops.finish;
  model_.finish_gradients(stream_, /*update=*/1);
  if (recorded == Recorded::kAll) {
    tally_.ops = &ops.update;
    model_.optimizer().step(stream_, /*learning_rate=*/0, /*update=*/1);
  }
  tally_.ops = &ops.publish;
  model_.publish(stream_);
  tally_.ops = nullptr;
  const auto masters = static_cast<double>(arenas_.masters.used());
  ops.state_bytes = masters + static_cast<double>(arenas_.optimizer.used());
  if (spec_.training.ema > 0) ops.averaged_bytes = masters;
  return ops;
}

}  // namespace

double PartOps::flops() const {
  double sum = 0;
  for (const List* list : {&forward, &backward}) {
    for (const PlannedOp& op : *list) sum += op.flops;
  }
  return sum;
}

namespace {

// Records parts of a model.
class ModelWalk {
 public:
  ModelWalk(const EngineSpec& spec, const MeshShape& mesh, Device device)
      : spec_(spec), part_(spec), shape_(mesh), device_(device) {
    shape_.pipeline = std::min<std::int64_t>(mesh.pipeline, 2);           // the ends
    part_.micro_batches = std::min<std::int64_t>(spec.micro_batches, 2);  // the first, and others
  }

  const MeshShape& shape() const { return shape_; }
  RankGroups groups_of(std::int64_t rank) {
    return RankGroups(static_cast<int>(rank), shape_, spec_.parallelism, spec_.model, device_,
                      spec_.job.reproducible, sent_);
  }
  // A part of the model with `layers` layers as the one given. The groups outlive it.
  PartWalk part(std::int64_t layer, std::int64_t layers, const RankGroups& groups,
                BlockRange blocks) {
    part_.model = with_equal_layers(spec_.model, layer, layers);
    return PartWalk(part_, groups, device_, blocks);
  }

 private:
  const EngineSpec& spec_;
  EngineSpec part_;
  MeshShape shape_;
  Device device_;
  Traffic sent_;
};

}  // namespace

PartOps record_embedding(const EngineSpec& spec, const MeshShape& mesh, Device device) {
  ModelWalk walk(spec, mesh, device);
  const RankGroups groups = walk.groups_of(0);
  return walk.part(0, 1, groups, {0, 0}).record();
}

StepOps record_step(const EngineSpec& spec, const MeshShape& mesh, Device device,
                    Recorded recorded) {
  ModelWalk walk(spec, mesh, device);
  const RankGroups on_first = walk.groups_of(0);
  StepOps ops;
  const std::vector<LayerConfig> layers = layer_configs(spec.model);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto same = static_cast<std::size_t>(
        std::find(layers.begin(), layers.begin() + i, layers[i]) - layers.begin());
    if (same < i) {
      ops.kind_of.push_back(ops.kind_of[same]);
      continue;
    }
    PartWalk block = walk.part(static_cast<std::int64_t>(i), 3, on_first, {1, 2});
    ops.kind_of.push_back(ops.kinds.size());
    ops.kinds.push_back(block.record(recorded));
    ops.boundary_bytes = block.boundary_bytes();
  }
  if (walk.shape().pipeline == 1) {
    ops.first = walk.part(0, 0, on_first, {0, 0}).record(recorded);
  } else {
    const RankGroups on_last = walk.groups_of(walk.shape().ranks() / 2);
    ops.first = walk.part(0, 1, on_first, {0, 0}).record(recorded);
    ops.last = walk.part(0, 1, on_last, {1, 1}).record(recorded);
  }
  return ops;
}

}  // namespace trireme
