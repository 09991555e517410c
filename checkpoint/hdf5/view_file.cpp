#include "checkpoint/hdf5/view_file.h"

#include <array>

#include "checkpoint/hdf5/file.h"
#include "checkpoint/hdf5/shard_file.h"

namespace trireme::checkpoint::hdf5 {
namespace {

void select(const Handle& space, const Box& box) {
  std::array<hsize_t, Shape::kMaxRank> from{};
  std::array<hsize_t, Shape::kMaxRank> extent{};
  for (int dim = 0; dim < box.from.rank(); ++dim) {
    from[static_cast<std::size_t>(dim)] = static_cast<hsize_t>(box.from[dim]);
    extent[static_cast<std::size_t>(dim)] = static_cast<hsize_t>(box.extent[dim]);
  }
  check(
      H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, from.data(), nullptr, extent.data(), nullptr),
      "select a rectangle");
}

}  // namespace

void write_view(const std::filesystem::path& path, const Manifest& manifest) {
  Handle file = create_file(path, {manifest.run, manifest.step});
  const Handle links = links_with_groups();
  for (const StoredTensor& tensor : manifest.tensors) {
    const std::string doing = say("create virtual dataset ", tensor.name);
    const Handle how(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, doing);
    for (const Rectangle& rectangle : tensor.rectangles) {
      const Handle target = space_of(tensor.shape);
      select(target, rectangle.box);
      const Handle source = space_of(rectangle.box.extent);
      const std::string name = dataset_name(tensor.name, tensor.shape, rectangle.box);
      check(H5Pset_virtual(how.id(), target.id(), manifest.shards[rectangle.shard].name.c_str(),
                           name.c_str(), source.id()),
            doing);
    }
    const Handle type = type_of(tensor.dtype);
    const Handle space = space_of(tensor.shape);
    Handle dataset(H5Dcreate2(file.id(), tensor.name.c_str(), type.id(), space.id(), links.id(),
                              how.id(), H5P_DEFAULT),
                   H5Dclose, doing);
    dataset.close(doing);
  }
  file.close(say("close ", path.string()));
}

}  // namespace trireme::checkpoint::hdf5
