#include "checkpoint/hdf5/view_file.h"

#include <array>
#include <cstdint>
#include <limits>

#include "checkpoint/hdf5/child.h"
#include "checkpoint/hdf5/file.h"
#include "checkpoint/hdf5/shard_file.h"
#include "model/base/file.h"

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

// Fill value for missing shards. HDF5's default is zero, which is a valid value; integers, which
// have no NaN, use their minimum.
void fill_what_is_missing(const Handle& how, DType dtype) {
  const std::string doing = "set a fill value";
  if (dtype == DType::kI32) {
    const auto least = std::numeric_limits<std::int32_t>::min();
    check(H5Pset_fill_value(how.id(), H5T_NATIVE_INT32, &least), doing);
    return;
  }
  if (dtype == DType::kF64) {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    check(H5Pset_fill_value(how.id(), H5T_NATIVE_DOUBLE, &nan), doing);
    return;
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::uint16_t half = dtype == DType::kF16 ? 0x7e00 : 0x7fc0;  // 16-bit NaN
  const bool is_half = size_of(dtype) == sizeof(half);
  check(H5Pset_fill_value(how.id(), type_of(dtype).id(),
                          is_half ? static_cast<const void*>(&half) : &nan),
        doing);
}

}  // namespace

void write_view(const std::filesystem::path& path, const Manifest& manifest) {
  in_child(say("writing ", path.string()), [&] {
    Handle file = create_file(path, {manifest.run, manifest.step});
    set_attribute(
        file.id(), "missing_shards",
        std::string("The values are in the shards (shard-*.h5), which must be next to this "
                    "file. Where one is missing its values read as NaN, those of integers "
                    "as the minimum of their type."));
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
      fill_what_is_missing(how, tensor.dtype);
      const Handle type = type_of(tensor.dtype);
      const Handle space = space_of(tensor.shape);
      Handle dataset(H5Dcreate2(file.id(), tensor.name.c_str(), type.id(), space.id(), links.id(),
                                how.id(), H5P_DEFAULT),
                     H5Dclose, doing);
      dataset.close(doing);
    }
    file.close(say("close ", path.string()));
    File::open_write(path).sync();
    return std::string();
  });
}

}  // namespace trireme::checkpoint::hdf5
