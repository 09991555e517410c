#include "trainer/supervise/link/socket.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "model/base/error.h"

namespace trireme {
namespace {

constexpr int kWaitingConnections = 4096;

sockaddr_in at(std::uint32_t address, std::uint16_t port) {
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = address;
  place.sin_port = htons(port);
  return place;
}

[[noreturn]] void fail(const char* what) {
  throw EnvironmentError(say("cannot ", what, ": ", std::strerror(errno)));
}

int open_socket() {
  return ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

// Heartbeats are small and must not be delayed by Nagle's algorithm.
void disable_nagle(int descriptor) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Socket Socket::listen(std::uint32_t address) {
  Socket socket(open_socket());
  if (!socket.is_open()) fail("open a socket");
  const sockaddr_in place = at(address, 0);
  if (::bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&place), sizeof place) != 0) {
    fail("bind to a port");
  }
  if (::listen(socket.descriptor(), kWaitingConnections) != 0) fail("listen on a port");
  return socket;
}

std::uint16_t Socket::port() const {
  sockaddr_in place{};
  socklen_t size = sizeof place;
  ::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&place), &size);
  return ntohs(place.sin_port);
}

Socket Socket::accept() const {
  Socket socket(::accept4(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (socket.is_open()) disable_nagle(socket.descriptor());
  return socket;
}

Socket Socket::connect(std::uint32_t address, std::uint16_t port) {
  Socket socket(open_socket());
  if (!socket.is_open()) return socket;
  disable_nagle(socket.descriptor());
  const sockaddr_in place = at(address, port);
  if (::connect(socket.descriptor(), reinterpret_cast<const sockaddr*>(&place), sizeof place) !=
          0 &&
      errno != EINPROGRESS) {
    return {};
  }
  return socket;
}

std::vector<std::uint32_t> own_addresses() {
  std::vector<std::uint32_t> found;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  for (const ifaddrs* one = all; one; one = one->ifa_next) {
    const bool is_up = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_up || !one->ifa_addr || one->ifa_addr->sa_family != AF_INET) continue;
    found.push_back(reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr);
  }
  ::freeifaddrs(all);
  return found;
}

std::uint32_t every_address() {
  return htonl(INADDR_ANY);
}

std::uint32_t loopback_address() {
  return htonl(INADDR_LOOPBACK);
}

}  // namespace trireme
