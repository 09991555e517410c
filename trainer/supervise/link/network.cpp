#include "trainer/supervise/link/network.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <charconv>
#include <optional>

#include "model/base/error.h"
#include "trainer/supervise/link/socket.h"

namespace trireme {
namespace {

// The source address that the kernel would use for packets to `address`.
std::optional<std::uint32_t> source_towards(std::uint32_t address) {
  const Socket socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = address;
  place.sin_port = htons(9);
  socklen_t size = sizeof place;
  auto* const raw = reinterpret_cast<sockaddr*>(&place);
  if (!socket.is_open() || ::connect(socket.descriptor(), raw, size) != 0 ||
      ::getsockname(socket.descriptor(), raw, &size) != 0) {
    return std::nullopt;
  }
  return place.sin_addr.s_addr;
}

bool is_loopback(std::uint32_t address) {
  return ntohl(address) >> 24 == 127;
}

}  // namespace

std::vector<std::uint32_t> addresses_of(const std::string& host) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* all = nullptr;
  std::vector<std::uint32_t> found;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &all) != 0) return found;
  for (const addrinfo* one = all; one; one = one->ai_next) {
    found.push_back(reinterpret_cast<const sockaddr_in*>(one->ai_addr)->sin_addr.s_addr);
  }
  ::freeaddrinfo(all);
  return found;
}

std::uint32_t own_address_towards(const std::vector<std::string>& hosts) {
  for (const std::string& host : hosts) {
    for (const std::uint32_t address : addresses_of(host)) {
      const auto source = source_towards(address);
      // A source equal to the target is this host.
      if (source && !is_loopback(*source) && *source != address) return *source;
    }
  }
  return loopback_address();
}

std::string address_text(std::uint32_t address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  const in_addr raw{address};
  ::inet_ntop(AF_INET, &raw, text.data(), text.size());
  return text.data();
}

HostPort parse_host_port(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  HostPort place;
  if (colon != std::string::npos) {
    place.host = text.substr(0, colon);
    const char* const end = text.data() + text.size();
    const auto [after, bad] = std::from_chars(text.data() + colon + 1, end, place.port);
    if (bad == std::errc() && after == end && place.port != 0 && !place.host.empty()) return place;
  }
  throw ConfigError(say("\"", text, "\" is not of the form HOST:PORT"));
}

}  // namespace trireme
