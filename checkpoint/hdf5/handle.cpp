#include "checkpoint/hdf5/handle.h"

#include "model/base/error.h"

namespace trireme::checkpoint::hdf5 {

void fail(const std::string& doing) {
  std::string reason;
  const auto keep_last = [](unsigned, const H5E_error2_t* error, void* into) -> herr_t {
    if (error->desc) *static_cast<std::string*>(into) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_last, &reason);
  throw EnvironmentError(say("cannot ", doing, ": HDF5 says: ", reason));
}

}  // namespace trireme::checkpoint::hdf5
