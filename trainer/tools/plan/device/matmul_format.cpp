#include "trainer/tools/plan/device/matmul_format.h"

#include <utility>

#include "model/base/error.h"

namespace trireme {
namespace {

constexpr std::size_t kHalfBytes = 2;

// A pass that writes codes and scales along the depth; NVFP4's scale of the tensor takes another
// over it before.
void add_passes(PartOps::List& list, const PlannedOp& product, double elements,
                NumberFormat numbers) {
  PlannedOp pass{.name = "quantize",
                 .element = kHalfBytes,
                 .bytes = elements * kHalfBytes,
                 .recomputes = product.recomputes};
  if (numbers == NumberFormat::kNvfp4) list.push_back(pass);
  pass.bytes += elements * operand_bytes(numbers);
  list.push_back(pass);
}

PartOps::List in_format(const PartOps::List& list, NumberFormat numbers) {
  PartOps::List made;
  for (PlannedOp op : list) {
    if (op.kind != PlannedOp::Kind::kMatmul || op.element != kHalfBytes) {
      made.push_back(op);
      continue;
    }
    // A message that the product overlaps stays with it.
    PartOps::List overlapping;
    while (!made.empty() && made.back().kind == PlannedOp::Kind::kMessage &&
           made.back().overlaps_next) {
      overlapping.insert(overlapping.begin(), made.back());
      made.pop_back();
    }
    const double elements = op.bytes / kHalfBytes, left = op.rows * op.depth;
    add_passes(made, op, left, numbers);
    add_passes(made, op, elements - left, numbers);
    made.insert(made.end(), overlapping.begin(), overlapping.end());
    op.element = 1;
    op.bytes = elements * operand_bytes(numbers);
    made.push_back(op);
  }
  return made;
}

}  // namespace

double operand_bytes(NumberFormat numbers) {
  switch (numbers) {
    case NumberFormat::kFloat32:
      return 4;
    case NumberFormat::kHalf:
      return 2;
    case NumberFormat::kFloat8:
      return 1;
    case NumberFormat::kMxfp8:
      return 1 + 1.0 / 32;
    case NumberFormat::kNvfp4:
      return 0.5 + 1.0 / 16;
  }
  return 0;
}

DeviceProfile with_matmul_format(DeviceProfile device, NumberFormat numbers) {
  if (device.rate(numbers).peak <= 0) {
    throw ConfigError(
        say("--matmul-format: ", device.name, " has no matmuls in ", name_of(numbers)));
  }
  device.narrow = numbers;
  return device;
}

bool assumes_format(const DeviceProfile& device) {
  return device.narrow != NumberFormat::kFloat8;
}

std::string assumption_text(const DeviceProfile& device) {
  return say("those of the blocks in ", name_of(device.narrow),
             ": an assumption of all times, which no training.dtype of the trainer runs; memory is "
             "that of training.dtype");
}

EngineSpec recorded_spec(EngineSpec spec, const DeviceProfile& device) {
  if (assumes_format(device)) spec.precision = MatmulPrecision::kNative;
  return spec;
}

PartOps in_format_of(const DeviceProfile& device, PartOps block) {
  if (!assumes_format(device)) return block;
  for (PartOps::List* list : {&block.forward, &block.backward, &block.backward_input}) {
    *list = in_format(*list, device.narrow);
  }
  return block;
}

StepOps record_step(const EngineSpec& spec, const MeshShape& mesh, const DeviceProfile& device,
                    Recorded recorded) {
  StepOps ops = record_step(recorded_spec(spec, device), mesh, device.device(), recorded);
  for (PartOps& block : ops.kinds) block = in_format_of(device, std::move(block));
  return ops;
}

}  // namespace trireme
