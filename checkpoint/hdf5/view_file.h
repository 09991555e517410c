#pragma once
#include <filesystem>

#include "checkpoint/manifest.h"

namespace trireme::checkpoint::hdf5 {

// Writes state.h5: one virtual dataset for each logical tensor over the shards beside
// it, so that h5py or h5dump sees the whole model wherever the folder is moved. Without a shard its
// values read as NaN, as an attribute of the file says.
void write_view(const std::filesystem::path& path, const Manifest& manifest);

}  // namespace trireme::checkpoint::hdf5
