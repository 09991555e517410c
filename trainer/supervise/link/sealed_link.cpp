#include "trainer/supervise/link/sealed_link.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace trireme {
namespace {

// At a time: no end, trusted or not, keeps the other from its work.
constexpr int kMostPieces = 8;

bool means_later(int reason) {
  return reason == EAGAIN || reason == EWOULDBLOCK || reason == EINTR;
}

}  // namespace

SealedLink::SealedLink(SealedStream::End end, const RunToken& token, Socket socket)
    : socket_(std::move(socket)), stream_(end, token, random_bytes(SealedStream::kChallengeBytes)) {
  unsent_ = stream_.greeting();
}

void SealedLink::send(std::string_view message) {
  // One that reads nothing is stopped: it gets no more than it can hold.
  if (unsent_.size() < 4 * SealedStream::kMostBytes) unsent_ += stream_.sealed(message);
  flush();
}

void SealedLink::flush() {
  while (is_open_ && !unsent_.empty()) {
    const ssize_t sent = ::send(descriptor(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0 && means_later(errno)) return;
    // That it cannot be written shows when it is read, after what came before.
    if (sent < 0) return unsent_.clear();
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
}

void SealedLink::receive() {
  std::array<char, 16 * 1024> bytes;
  for (int piece = 0; is_open() && piece < (is_trusted() ? kMostPieces : 1); ++piece) {
    const ssize_t got = ::recv(descriptor(), bytes.data(), bytes.size(), 0);
    if (got < 0 && means_later(errno)) return;
    if (got <= 0) {
      is_open_ = false;
      return;
    }
    stream_.feed({bytes.data(), static_cast<std::size_t>(got)});
  }
}

}  // namespace trireme
