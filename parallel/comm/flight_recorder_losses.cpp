#include "parallel/comm/flight_recorder_losses.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "model/base/error.h"
#include "parallel/comm/flight_recorder_layout.h"

namespace trireme {
namespace {

// Between the ending and the groups of the layout.
static_assert(kLedgerLossesAt >= offsetof(flight::Layout, ended) + 8 &&
              kLedgerLossesAt + kLedgerLosses * sizeof(FlightRecorderLoss) <=
                  offsetof(flight::Layout, groups));

class Open {
 public:
  Open(const std::filesystem::path& path, int mode)
      : descriptor(::open(path.c_str(), mode | O_NONBLOCK | O_CLOEXEC)) {}
  ~Open() {
    if (descriptor >= 0) ::close(descriptor);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  const int descriptor;
};

off_t place_of(std::size_t nth) {
  return static_cast<off_t>(kLedgerLossesAt + nth * sizeof(FlightRecorderLoss));
}

}  // namespace

void note_loss(const std::filesystem::path& recorder, FlightRecorderLoss loss) {
  const Open file(recorder, O_RDWR);
  FlightRecorderLoss there;
  for (std::size_t nth = 0; nth < kLedgerLosses; ++nth) {
    if (::pread(file.descriptor, &there, sizeof there, place_of(nth)) != sizeof there) return;
    if (there.at != 0) continue;
    if (::pwrite(file.descriptor, &loss, sizeof loss, place_of(nth)) < 0) return;
    return;
  }
}

std::vector<FlightRecorderLoss> losses_in(const std::filesystem::path& recorder) {
  const Open file(recorder, O_RDONLY);
  std::vector<FlightRecorderLoss> seen;
  FlightRecorderLoss there;
  while (seen.size() < kLedgerLosses) {
    const ssize_t got = ::pread(file.descriptor, &there, sizeof there, place_of(seen.size()));
    if (got < 0) {
      throw EnvironmentError(say("cannot read ", recorder.string(), ": ", std::strerror(errno)));
    }
    if (got != sizeof there || there.at == 0) break;
    seen.push_back(there);
  }
  return seen;
}

}  // namespace trireme
