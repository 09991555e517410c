#pragma once
#include <cstdint>

#include "checkpoint/manifest.h"
#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// One number for all the weights of a model: XXH3-64 of a line "name crc32c" for each
// logical parameter in order of their names, the CRC32C of its elements as float32.
// Equal for equal weights whatever the compute dtype, the recomputation or the layout.
// `ranks` hold the model together, each as many parts of it as it likes; all call this.
// `masters`: the store's, in memory of the host.
std::uint64_t weights_hash(const ParamStore& params, const Tensor& masters, Communicator& ranks);
// Of the weights in a checkpoint whose masters are float32, without reading them.
std::uint64_t weights_hash(const checkpoint::Manifest& manifest);

}  // namespace trireme
