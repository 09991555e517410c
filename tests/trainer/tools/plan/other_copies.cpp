#include "tests/trainer/tools/plan/other_ops.h"
#include "trainer/tools/plan/device/matmul_format.h"

namespace trireme::published {

// Inputs and gradients are quantized before a message of them.
PartOps::List quantized(const PartOps::List& list, const TrainerTraits& traits, bool is_backward) {
  if (traits.quantizing_reads == 0) return list;
  const double bytes = operand_bytes(traits.narrow),
               of_weight =
                   is_backward ? traits.weight_traffic_backward : traits.weight_traffic_forward;
  PartOps::List made;
  for (PlannedOp op : list) {
    if (is_message(op, "data_shard") && op.collective == Collective::kAllGather &&
        traits.gathers_narrow) {
      op.bytes *= bytes / static_cast<double>(op.element);
      op.element = 1;
    }
    if (op.kind == PlannedOp::Kind::kMatmul && op.element == 2) {
      if (!is_gradient(op)) {
        const bool follows = !made.empty() && made.back().kind == PlannedOp::Kind::kMessage;
        made.insert(follows ? made.end() - 1 : made.end(),
                    {.name = "quantize",
                     .element = op.element,
                     .bytes = op.rows * op.depth * (2 * traits.quantizing_reads + 2 * bytes) +
                              op.columns * op.depth * of_weight});
      }
      op.bytes *= bytes / 2;
      op.element = 1;
    }
    made.push_back(op);
  }
  return made;
}

void add_sharded(PartOps::List& list, PlannedOp op, double pieces, const TrainerTraits& traits) {
  const bool gathers = op.collective == Collective::kAllGather;
  const auto element = static_cast<double>(op.element);
  const double copied = op.bytes / element * (gathers ? 2 * element : traits.reduced_copy);
  const bool copies = gathers ? traits.copies_gathered : traits.reduced_copy > 0;
  const auto copy = [&] {
    if (copies) list.push_back({.name = "copy", .element = 2, .bytes = copied});
  };
  if (!gathers) copy();
  op.bytes /= pieces;
  for (int piece = 0; piece < pieces; ++piece) list.push_back(op);
  if (gathers) copy();
}

}  // namespace trireme::published
