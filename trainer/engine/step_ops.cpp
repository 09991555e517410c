#include "trainer/engine/step_ops.h"

#include <algorithm>
#include <utility>

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
        groups_(groups),
        permanent_(arenas_.workspace.used()),
        constructed_(arenas_.workspace.peak()) {}

  // Of micro-batches of so many sequences.
  PartOps record(std::int64_t sequences, Recompute recompute, Recorded recorded);
  PartOps record(Recorded recorded) {
    return record(spec_.training.local_batch_size, spec_.activation_checkpoint.mode, recorded);
  }
  double boundary_bytes() const { return static_cast<double>(boundary_.bytes()); }

 private:
  void take_batch();
  const Stage& stage() const { return *model_.stages().front(); }
  template <class Body>
  void pass(PartOps::List& list, const Body& body);

  EngineSpec spec_;
  Tally tally_;
  Stream stream_;
  Arenas arenas_;
  StepProgress progress_{nullptr};
  ModelState model_;
  const RankGroups& groups_;
  const std::size_t permanent_, constructed_;  // of the workspace: bytes taken, and their peak
  MicroBatch batch_;
  Tensor boundary_;
};

void PartWalk::take_batch() {
  const Communicator& context = *groups_.context;
  arenas_.data.forget();
  batch_ = {.sequences = spec_.training.local_batch_size,
            .seq_len = spec_.training.seq_len / (divides_sequences(spec_) ? context.size() : 1),
            .documents = spec_.data.document_mask};
  const auto table = [&] { return arenas_.data.take({batch_.tokens()}, DType::kI32); };
  batch_.ids = table();
  batch_.targets = table();
  batch_.positions = table();
  batch_.document_start = table();
  if (spec_.training.dropout.any()) batch_.dropout_words = table();
  if (context.size() > 1) {
    batch_.shard =
        SequenceShards(stream_, arenas_.data, SequenceShards::size(spec_, context)).shard(0);
  }
  boundary_ = arenas_.data.take(stage().boundary(batch_.tokens()), spec_.compute);
}

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

PartOps PartWalk::record(std::int64_t sequences, Recompute recompute, Recorded recorded) {
  spec_.training.local_batch_size = sequences;
  model_.set_recompute(recompute);
  take_batch();
  // The peak counts from here; what the model holds stays taken.
  arenas_.workspace.forget();
  arenas_.workspace.take({static_cast<std::int64_t>(permanent_ / size_of(DType::kI32))},
                         DType::kI32);
  PartOps ops;
  Stage::Saved saved;
  model_.begin_gradients(spec_.micro_batches);
  PartOps::List codes;
  pass(codes, [&](ExecContext& ctx) { stage().update_codes(ctx); });
  for (std::int64_t m = 0; m < spec_.micro_batches; ++m) {
    ops = {};
    arenas_.activations.front().reset();
    pass(ops.forward, [&](ExecContext& ctx) { stage().forward(ctx, batch_, boundary_, saved); });
    ops.saved_bytes = static_cast<double>(arenas_.activations.front().used());
    pass(ops.backward, [&](ExecContext& ctx) { stage().backward(ctx, boundary_, saved); });
    ops.workspace_bytes = static_cast<double>(std::max(constructed_, arenas_.workspace.peak()));
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
    ops.update = std::move(codes);
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
      : part_(spec), model_(spec.model), shape_(mesh), device_(device) {
    shape_.pipeline = std::min<std::int64_t>(mesh.pipeline, 2);           // the ends
    part_.micro_batches = std::min<std::int64_t>(spec.micro_batches, 2);  // the first, and others
  }

  const MeshShape& shape() const { return shape_; }
  RankGroups groups_of(std::int64_t rank) {
    return RankGroups(static_cast<int>(rank), shape_, part_.parallelism, model_, device_,
                      part_.job.reproducible, sent_);
  }
  // A part of the model with `layers` layers as the one given. The groups outlive it.
  PartWalk part(std::int64_t layer, std::int64_t layers, const RankGroups& groups,
                BlockRange blocks) {
    part_.model = with_equal_layers(model_, layer, layers);
    return PartWalk(part_, groups, device_, blocks);
  }

 private:
  EngineSpec part_;
  const ModelConfig model_;
  MeshShape shape_;
  Device device_;
  Traffic sent_;
};

}  // namespace

PartOps record_embedding(const EngineSpec& spec, const MeshShape& mesh, Device device) {
  ModelWalk walk(spec, mesh, device);
  const RankGroups groups = walk.groups_of(0);
  return walk.part(0, 1, groups, {0, 0}).record(Recorded::kAll);
}

namespace {

// A block as the one of a layer, between two others.
class BlockWalk final : public BlockRecorder {
 public:
  BlockWalk(const EngineSpec& spec, const MeshShape& mesh, Device device, std::int64_t layer)
      : model_(spec, mesh, device),
        groups_(model_.groups_of(0)),
        block_(model_.part(layer, 3, groups_, {1, 2})) {}

  PartOps record(std::int64_t local_batch_size, Recompute recompute, Recorded recorded) override {
    return block_.record(local_batch_size, recompute, recorded);
  }

 private:
  ModelWalk model_;
  const RankGroups groups_;
  PartWalk block_;
};

}  // namespace

std::unique_ptr<BlockRecorder> block_recorder(const EngineSpec& spec, const MeshShape& mesh,
                                              Device device, std::int64_t layer) {
  return std::make_unique<BlockWalk>(spec, mesh, device, layer);
}

EndOps record_ends(const EngineSpec& spec, const MeshShape& mesh, Device device,
                   Recorded recorded) {
  ModelWalk walk(spec, mesh, device);
  const RankGroups on_first = walk.groups_of(0);
  const bool has_both = walk.shape().pipeline == 1;
  PartWalk first = walk.part(0, has_both ? 0 : 1, on_first, {0, 0});
  EndOps ends{.first = first.record(recorded), .last = {}, .boundary_bytes = 0};
  ends.boundary_bytes = first.boundary_bytes();
  if (has_both) return ends;
  const RankGroups on_last = walk.groups_of(walk.shape().ranks() / 2);
  ends.last = walk.part(0, 1, on_last, {1, 1}).record(recorded);
  return ends;
}

StepOps record_step(const EngineSpec& spec, const MeshShape& mesh, Device device,
                    Recorded recorded) {
  StepOps ops;
  const std::vector<LayerConfig> layers = layer_configs(spec.model);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto same = static_cast<std::size_t>(
        std::find(layers.begin(), layers.begin() + i, layers[i]) - layers.begin());
    if (same < i) {
      ops.kind_of.push_back(ops.kind_of[same]);
      continue;
    }
    ops.kind_of.push_back(ops.kinds.size());
    ops.kinds.push_back(
        block_recorder(spec, mesh, device, static_cast<std::int64_t>(i))
            ->record(spec.training.local_batch_size, spec.activation_checkpoint.mode, recorded));
  }
  EndOps ends = record_ends(spec, mesh, device, recorded);
  ops.first = std::move(ends.first);
  ops.last = std::move(ends.last);
  ops.boundary_bytes = ends.boundary_bytes;
  return ops;
}

}  // namespace trireme
