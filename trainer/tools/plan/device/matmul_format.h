#pragma once
#include <string>

#include "trainer/engine/step_ops.h"
#include "trainer/tools/plan/device/device_profile.h"

namespace trireme {

// Matmuls in number formats with a scale per block, which a plan may assume and no training.dtype
// computes. MXFP8: 8 bits and a scale of one byte for 32 elements (Rouhani et al. 2023,
// arXiv 2310.10537); NVFP4: 4 bits and one for 16, and one of the tensor (NVIDIA 2025,
// arXiv 2509.25149).

// Bytes of an element of an operand, its scale included.
double operand_bytes(NumberFormat numbers);

// The device with the blocks' matmuls in kMxfp8 or kNvfp4. Throws ConfigError if it has no such.
DeviceProfile with_matmul_format(DeviceProfile device, NumberFormat numbers);
bool assumes_format(const DeviceProfile& device);
std::string assumption_text(const DeviceProfile& device);

// For those who record parts of a step: the spec whose ops are recorded, and a block's ops with its
// matmuls in the device's format.
EngineSpec recorded_spec(EngineSpec spec, const DeviceProfile& device);
PartOps in_format_of(const DeviceProfile& device, PartOps block);

// What record_step records, with the blocks' matmuls in the device's format and the passes that
// quantize both operands of each.
StepOps record_step(const EngineSpec& spec, const MeshShape& mesh, const DeviceProfile& device,
                    Recorded recorded = Recorded::kAll);

}  // namespace trireme
