#include "model/base/host_name.h"

#include <unistd.h>

#include <array>

namespace trireme {

std::string own_host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace trireme
