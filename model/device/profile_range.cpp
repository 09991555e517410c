#include "model/device/profile_range.h"

#include "model/device/cuda/backend.h"

namespace trireme {

void ProfileRange::begin(const char* name, std::int64_t number) noexcept {
  cuda::begin_range(name, number);
}
void ProfileRange::end() noexcept {
  cuda::end_range();
}

}  // namespace trireme
