#include "trainer/supervise/link/sealed_link.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>

namespace trireme {
namespace {

// Chunks read per call, so that no peer can keep this process busy.
constexpr int kMaxChunks = 8;

bool would_block(int reason) {
  return reason == EAGAIN || reason == EWOULDBLOCK || reason == EINTR;
}

}  // namespace

SealedLink::SealedLink(SealedStream::End end, const RunToken& token, Socket socket)
    : socket_(std::move(socket)), stream_(end, token, random_bytes(SealedStream::kChallengeBytes)) {
  unsent_ = stream_.greeting();
}

void SealedLink::send(std::string_view message) {
  // A peer that reads nothing (a stopped process) has a bounded queue; further messages are
  // dropped.
  if (unsent_.size() < 4 * SealedStream::kMaxBytes) unsent_ += stream_.sealed(message);
  flush();
}

void SealedLink::flush() {
  while (is_open_ && !unsent_.empty()) {
    const ssize_t sent = ::send(descriptor(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0 && would_block(errno)) return;
    // receive() reports the closed connection, after the data that arrived before.
    if (sent < 0) return unsent_.clear();
    unsent_.erase(0, static_cast<std::size_t>(sent));
  }
}

void SealedLink::receive() {
  std::array<char, 16 * 1024> bytes;
  for (int chunk = 0; is_open() && chunk < (is_trusted() ? kMaxChunks : 1); ++chunk) {
    const ssize_t got = ::recv(descriptor(), bytes.data(), bytes.size(), 0);
    if (got < 0 && would_block(errno)) return;
    if (got <= 0) {
      is_open_ = false;
      return;
    }
    stream_.feed({bytes.data(), static_cast<std::size_t>(got)});
  }
}

}  // namespace trireme
