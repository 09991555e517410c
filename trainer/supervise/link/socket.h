#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace trireme {

// A non-blocking TCP socket over IPv4, closed by the destructor.
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

  // Listens at `address` (network byte order) on a port chosen by the system. Throws
  // EnvironmentError.
  static Socket listen(std::uint32_t address);
  std::uint16_t port() const;
  // An accepted connection, or a closed socket if none is pending.
  Socket accept() const;
  // Starts a connection; it has succeeded or failed once the socket is writable. Addresses are in
  // network byte order.
  static Socket connect(std::uint32_t address, std::uint16_t port);

 private:
  int descriptor_ = -1;
};

// Addresses of the local interfaces that are up, without loopback, in network byte order.
std::vector<std::uint32_t> own_addresses();
std::uint32_t loopback_address();
// INADDR_ANY, to listen on every interface.
std::uint32_t every_address();

}  // namespace trireme
