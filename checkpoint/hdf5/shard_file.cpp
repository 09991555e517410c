#include "checkpoint/hdf5/shard_file.h"

#include <nlohmann/json.hpp>

#include "checkpoint/format/boxes.h"
#include "checkpoint/hdf5/child.h"

namespace trireme::checkpoint::hdf5 {
namespace {

// Allocated early and never filled, so that the offset is known and the payload can be written
// without HDF5.
Handle contiguous() {
  const std::string doing = "describe a contiguous dataset";
  Handle how(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, doing);
  check(H5Pset_layout(how.id(), H5D_CONTIGUOUS), doing);
  check(H5Pset_alloc_time(how.id(), H5D_ALLOC_TIME_EARLY), doing);
  check(H5Pset_fill_time(how.id(), H5D_FILL_TIME_NEVER), doing);
  return how;
}

}  // namespace

std::string dataset_name(const std::string& tensor, Shape shape, const Box& box) {
  if (box == all_of(shape)) return tensor;
  std::string name = tensor;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    name += (dim ? ',' : '@') + std::to_string(box.from[dim]);
  }
  return name;
}

std::vector<std::uint64_t> lay_out(const std::filesystem::path& path, const Origin& origin,
                                   std::span<const Piece> pieces) {
  const std::string text = in_child(say("laying out ", path.string()), [&] {
    Handle file = create_file(path, origin);
    const Handle links = links_with_groups();
    const Handle how = contiguous();
    std::vector<std::uint64_t> offsets;
    for (const Piece& piece : pieces) {
      const std::string name = dataset_name(piece.tensor, piece.shape, piece.box);
      const std::string doing = say("create dataset ", name, " in ", path.string());
      const Handle type = type_of(piece.dtype);
      const Handle space = space_of(piece.box.extent);
      Handle dataset(H5Dcreate2(file.id(), name.c_str(), type.id(), space.id(), links.id(),
                                how.id(), H5P_DEFAULT),
                     H5Dclose, doing);
      set_attribute(dataset.id(), "logical_shape", piece.shape);
      set_attribute(dataset.id(), "from", piece.box.from);
      const haddr_t offset = H5Dget_offset(dataset.id());
      if (offset == HADDR_UNDEF) fail(say("find the place of dataset ", name));
      offsets.push_back(offset);
      dataset.close(doing);
    }
    file.close(say("close ", path.string()));
    return nlohmann::json(offsets).dump();
  });
  return nlohmann::json::parse(text).get<std::vector<std::uint64_t>>();
}

}  // namespace trireme::checkpoint::hdf5
