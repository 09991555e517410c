#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// IPv4 addresses, in network byte order.

// Those of a host; none where its name is not known.
std::vector<std::uint32_t> addresses_of(const std::string& host);

// This machine's address on the network through which it reaches `hosts` (itself may be among
// them); the loopback address where it reaches nobody else. Nothing is sent.
std::uint32_t own_address_towards(const std::vector<std::string>& hosts);

// "10.0.0.7".
std::string address_text(std::uint32_t address);

// "HOST:PORT".
struct NetworkPlace {
  std::string host;
  std::uint16_t port = 0;
};
// Throws ConfigError.
NetworkPlace parse_place(const std::string& text);

}  // namespace trireme
