#pragma once
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoint/format/piece.h"
#include "checkpoint/hdf5/file.h"

namespace trireme::checkpoint::hdf5 {

// Dataset name of a box in its shard: the tensor's name, and the first coordinates unless the box
// is the whole tensor: "model/layers.0.mlp.up.weight@0,512".
std::string dataset_name(const std::string& tensor, Shape shape, const Box& box);

// Creates, in a child process, a complete, closed HDF5 file with one contiguous, unfiltered dataset
// per piece, allocated but not written. Returns the file offsets of the datasets.
std::vector<std::uint64_t> lay_out(const std::filesystem::path& path, const Origin& origin,
                                   std::span<const Piece> pieces);

}  // namespace trireme::checkpoint::hdf5
