#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

// A TCP socket that never blocks, over IPv4; closed when it dies.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket();

  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

  // Waits for connections at a port that the system picks, at this address, in network byte
  // order. Throws EnvironmentError.
  static Socket listen(std::uint32_t address);
  std::uint16_t port() const;
  // A connection that has come, or a closed socket.
  Socket accept() const;
  // Begins to connect; whether it can is known once it is writable. Addresses are in
  // network byte order.
  static Socket connect(std::uint32_t address, std::uint16_t port);

 private:
  int descriptor_ = -1;
};

// Where others may reach this machine: the addresses of its interfaces that are up, without
// the loopback ones; in network byte order.
std::vector<std::uint32_t> own_addresses();
std::uint32_t loopback_address();
// To listen at: all of this machine's.
std::uint32_t every_address();

}  // namespace trireme
