#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trireme {

// All addresses are IPv4, in network byte order.

// Addresses of a host; empty if the name cannot be resolved.
std::vector<std::uint32_t> addresses_of(const std::string& host);

// The local address on the network that reaches `hosts` (which may include this host); the loopback
// address if no other host is reachable. Sends nothing.
std::uint32_t own_address_towards(const std::vector<std::string>& hosts);

// Dotted decimal: "10.0.0.7".
std::string address_text(std::uint32_t address);

// A host name and a TCP port, written "HOST:PORT".
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};
// Parses "HOST:PORT". Throws ConfigError.
HostPort parse_host_port(const std::string& text);

}  // namespace trireme
