#pragma once
#include <cstdint>

#include "checkpoint/format/manifest.h"
#include "model/device/stream.h"
#include "model/params/param_store.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// A hash of all weights of a model: XXH3-64 of one line "name crc32c" per logical parameter, sorted
// by name, with the CRC32C of its elements as float32. Equal weights have equal hashes, whatever
// the compute dtype, recomputation or layout. `ranks`: the ranks that together hold the model, in
// any division; collective over them. Reads the masters after the work on `stream`, from a device
// through a small buffer.
std::uint64_t weights_hash(const ParamStore& params, Stream& stream, Communicator& ranks);
// The same for the weights in a checkpoint with float32 masters, from its manifest alone.
std::uint64_t weights_hash(const checkpoint::Manifest& manifest);

}  // namespace trireme
