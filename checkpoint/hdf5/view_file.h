#pragma once
#include <filesystem>

#include "checkpoint/format/manifest.h"

namespace trireme::checkpoint::hdf5 {

// Writes and syncs state.h5, in a child process: one virtual dataset per logical tensor over the
// shards in the same folder, so that h5py or h5dump shows the whole model; the folder may be moved.
// Values in a missing shard read as NaN, as an attribute of the file documents.
void write_view(const std::filesystem::path& path, const Manifest& manifest);

}  // namespace trireme::checkpoint::hdf5
