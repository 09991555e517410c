#include "trainer/restart/watch_link.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "model/base/error.h"

namespace trireme {
namespace {

bool means_later(int reason) {
  return reason == EAGAIN || reason == EWOULDBLOCK || reason == EINTR;
}

}  // namespace

void WatchLink::send(const WatchMessage& message) {
  // One that reads nothing is stopped: it gets no more than it can hold.
  if (unsent_.size() < 4 * WatchMessage::kMostBytes) unsent_ += message.encoded();
  flush();
}

void WatchLink::flush() {
  while (is_open_ && !unsent_.empty()) {
    const ssize_t sent = ::send(descriptor(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0 && means_later(errno)) return;
    // That it cannot be written shows when it is read, after what came before.
    if (sent < 0) return unsent_.clear();
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
}

void WatchLink::receive() {
  std::array<char, 16 * 1024> bytes;
  while (is_open_) {
    const ssize_t got = ::recv(descriptor(), bytes.data(), bytes.size(), 0);
    if (got < 0 && means_later(errno)) return;
    if (got <= 0) {
      is_open_ = false;
      return;
    }
    received_.append(bytes.data(), static_cast<std::size_t>(got));
    if (!is_trusted_) return;  // a stranger is read piece by piece
  }
}

std::optional<WatchMessage> WatchLink::take() {
  std::uint32_t size = 0;
  if (received_.size() < sizeof size) return std::nullopt;
  std::memcpy(&size, received_.data(), sizeof size);
  try {
    require(size <= (is_trusted_ ? WatchMessage::kMostBytes : WatchMessage::kMostHelloBytes),
            "a watchdog's message of ", size, " bytes");
    if (received_.size() < sizeof size + size) return std::nullopt;
    WatchMessage message =
        WatchMessage::decoded(std::string_view(received_).substr(sizeof size, size));
    received_.erase(0, sizeof size + size);
    return message;
  } catch (const Error&) {
    is_open_ = false;
    received_.clear();
    return std::nullopt;
  }
}

}  // namespace trireme
