#pragma once
#include <filesystem>
#include <span>
#include <vector>

#include "checkpoint/hdf5/file.h"
#include "checkpoint/piece.h"

namespace trireme::checkpoint::hdf5 {

// A rectangle's name in its shard: the tensor's, and where it begins unless it is
// all of it: "model/layers.0.mlp.up.weight@0,512".
std::string dataset_name(const std::string& tensor, Shape shape, const Box& box);

// Creates a closed, complete HDF5 file with one contiguous, unfiltered dataset for
// each piece, its bytes allocated but not written. Returns where they belong.
std::vector<std::uint64_t> lay_out(const std::filesystem::path& path, const Origin& origin,
                                   std::span<const Piece> pieces);

}  // namespace trireme::checkpoint::hdf5
