#include "checkpoint/hdf5/file.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "model/base/error.h"

namespace trireme::checkpoint::hdf5 {
namespace {

using Sizes = std::array<hsize_t, Shape::kMaxRank>;

void write_attribute(hid_t object, const char* name, hid_t type, const Handle& space,
                     const void* value) {
  const std::string doing = say("write attribute ", name);
  Handle attribute(H5Acreate2(object, name, type, space.id(), H5P_DEFAULT, H5P_DEFAULT), H5Aclose,
                   doing);
  check(H5Awrite(attribute.id(), type, value), doing);
  attribute.close(doing);
}

}  // namespace

void fail(const std::string& doing) {
  std::string reason;
  const auto keep_last = [](unsigned, const H5E_error2_t* error, void* into) -> herr_t {
    if (error->desc) *static_cast<std::string*>(into) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_last, &reason);
  throw EnvironmentError(say("cannot ", doing, ": HDF5 says: ", reason));
}

Handle create_file(const std::filesystem::path& path, const Origin& origin) {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // errors are reported by fail()
  // The run's lease excludes other writers, and some cluster file systems have no locks.
  ::setenv("HDF5_USE_FILE_LOCKING", "FALSE", 1);
  const std::string doing = say("create ", path.string());
  const Handle access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, doing);
  check(H5Pset_libver_bounds(access.id(), H5F_LIBVER_LATEST, H5F_LIBVER_LATEST), doing);
  constexpr hsize_t kBlock = 4096;  // alignment for direct I/O
  check(H5Pset_alignment(access.id(), kBlock, kBlock), doing);
  Handle file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.id()), H5Fclose, doing);
  set_attribute(file.id(), "run", origin.run);
  set_attribute(file.id(), "step", origin.step);
  return file;
}

Handle type_of(DType dtype) {
  const std::string doing = say("describe ", name_of(dtype));
  const hid_t like = dtype == DType::kF64   ? H5T_IEEE_F64LE
                     : dtype == DType::kI32 ? H5T_STD_I32LE
                                            : H5T_IEEE_F32LE;
  Handle type(H5Tcopy(like), H5Tclose, doing);
  if (dtype == DType::kBf16 || dtype == DType::kF16) {
    const std::size_t mantissa = dtype == DType::kF16 ? 10 : 7, exponent = 15 - mantissa;
    // Set the fields first: they must fit the type at any time.
    check(H5Tset_fields(type.id(), 15, mantissa, exponent, 0, mantissa), doing);
    check(H5Tset_precision(type.id(), 16), doing);
    check(H5Tset_size(type.id(), 2), doing);
    check(H5Tset_ebias(type.id(), (std::size_t{1} << (exponent - 1)) - 1), doing);
  }
  return type;
}

Handle space_of(Shape shape) {
  Sizes sizes{};
  for (int dim = 0; dim < shape.rank(); ++dim) {
    sizes[static_cast<std::size_t>(dim)] = static_cast<hsize_t>(shape[dim]);
  }
  return {H5Screate_simple(shape.rank(), sizes.data(), nullptr), H5Sclose,
          say("describe shape ", shape)};
}

Handle links_with_groups() {
  const std::string doing = "describe links";
  Handle links(H5Pcreate(H5P_LINK_CREATE), H5Pclose, doing);
  check(H5Pset_create_intermediate_group(links.id(), 1), doing);
  return links;
}

void set_attribute(hid_t object, const char* name, std::int64_t value) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose, "describe a scalar");
  write_attribute(object, name, H5T_STD_I64LE, space, &value);
}

void set_attribute(hid_t object, const char* name, const std::string& value) {
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose, "describe a scalar");
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose, "describe a string");
  check(H5Tset_size(type.id(), std::max<std::size_t>(value.size(), 1)), "describe a string");
  check(H5Tset_strpad(type.id(), H5T_STR_NULLPAD), "describe a string");
  write_attribute(object, name, type.id(), space, value.c_str());
}

void set_attribute(hid_t object, const char* name, Shape value) {
  std::array<std::int64_t, Shape::kMaxRank> numbers{};
  for (int dim = 0; dim < value.rank(); ++dim) numbers[static_cast<std::size_t>(dim)] = value[dim];
  write_attribute(object, name, H5T_STD_I64LE, space_of(Shape{value.rank()}), numbers.data());
}

}  // namespace trireme::checkpoint::hdf5
