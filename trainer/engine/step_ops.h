#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "model/device/planned_op.h"
#include "parallel/mesh/mesh.h"
#include "trainer/engine/engine_spec.h"

namespace trireme {

// Ops and messages of a rank for a part of the model, in order.
struct PartOps {
  using List = std::vector<PlannedOp>;
  // Of a step's last micro-batch, in which ZeRO-0 and 1 reduce gradients.
  List forward, backward;
  // For a block whose backward may be split: without the deferred weight gradients.
  List backward_input;
  // Of a step, after the last backward: what completes the gradients, the optimizer's update (if it
  // divides matrices over ranks, those of this part alone) with the float8 codes that are kept of
  // the weights, the gather of updated weights.
  List finish, update, publish;
  // Of a micro-batch: activations that wait for the backward, and the workspace's peak.
  double saved_bytes = 0, workspace_bytes = 0;
  // Bytes of masters and optimizer state that the update reads and writes, and reads again for the
  // average of the weights.
  double state_bytes = 0, averaged_bytes = 0;

  double flops() const;  // of a micro-batch, with recomputation
};

// Ops and messages of a step, recorded from the engine's own layers.
struct StepOps {
  std::vector<PartOps> kinds;        // one block of each kind of layer
  std::vector<std::size_t> kind_of;  // by layer
  const PartOps& block(std::int64_t layer = 0) const { return kinds[kind_of[layer]]; }
  // What the first and the last stage have in addition: the embedding, and the head. Without a
  // pipeline both are in `first`.
  PartOps first, last;
  double boundary_bytes = 0;  // a rank's activations of a micro-batch between two stages
  bool overlaps_data = true;  // messages of the data axis overlap computation
};

// Bounds of steps have no updates, whose ops are one for each parameter of each expert.
enum class Recorded : std::uint8_t { kAll, kWithoutUpdate };

// Walks the parts of a model on a planning stream, on a rank of each kind; ranks that differ along
// other axes than the pipeline are equal. Both data axes of the shape are set; `device` may be an
// imagined GPU. Allocates no tensors and takes about a millisecond. Throws ConfigError if the
// layout is invalid.
StepOps record_step(const EngineSpec& spec, const MeshShape& mesh, Device device = {},
                    Recorded recorded = Recorded::kAll);

// The same of single parts, for those who record many layouts. Blocks do not depend on the number
// of pipeline ranks, nor the ends on experts, recomputation and the context method.

// Records a block of one layout with micro-batches of several sizes and several recomputation
// modes, for which the model state is made once.
class BlockRecorder {
 public:
  BlockRecorder() = default;
  BlockRecorder(const BlockRecorder&) = delete;
  BlockRecorder& operator=(const BlockRecorder&) = delete;
  virtual ~BlockRecorder() = default;
  virtual PartOps record(std::int64_t local_batch_size, Recompute recompute, Recorded recorded) = 0;
};
// Of the kind of block that `layer` is. The size and the mode of `spec` do not matter.
std::unique_ptr<BlockRecorder> block_recorder(const EngineSpec& spec, const MeshShape& mesh,
                                              Device device, std::int64_t layer);

// StepOps::first, last and boundary_bytes.
struct EndOps {
  PartOps first, last;
  double boundary_bytes = 0;
};
EndOps record_ends(const EngineSpec& spec, const MeshShape& mesh, Device device, Recorded recorded);

// The embedding alone, as part of StepOps::first: its ops are the first of that forward and the
// last of that backward, but for messages of the data axis.
PartOps record_embedding(const EngineSpec& spec, const MeshShape& mesh, Device device = {});

}  // namespace trireme
