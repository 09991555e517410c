#pragma once
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// A 128-bit random secret shared by the processes of one run. The token of a supervisor and its
// agents is stored for the lifetime of the run in RUN_DIR/control-token, readable by its owner
// only; the token of the ranks' watchdogs is drawn at each start and broadcast over MPI.
class RunToken {
 public:
  static constexpr std::size_t kBytes = 16;
  static constexpr std::size_t kTagBytes = 32;
  using Tag = std::array<unsigned char, kTagBytes>;

  // make() creates the token if the run has none; read() requires one. Both throw EnvironmentError,
  // also if other users can read or write the file.
  static RunToken make(const std::filesystem::path& run_dir);
  static RunToken read(const std::filesystem::path& run_dir);
  explicit RunToken(const std::array<unsigned char, kBytes>& bytes) : bytes_(bytes) {}

  // The environment variable "TRIREME_RUN=..." that identifies the processes of the run's ranks. It
  // reveals nothing about the token.
  std::string mark() const;

  // HMAC-SHA-256 (RFC 2104) of `text`, keyed by the token.
  Tag tag(std::string_view text) const { return tag_by(bytes_, text); }
  static Tag tag_by(std::span<const unsigned char> key, std::string_view text);
  // Constant-time comparison.
  static bool same(const Tag& one, std::string_view other);

 private:
  std::array<unsigned char, kBytes> bytes_;
};

// `count` cryptographically secure random bytes.
std::string random_bytes(std::size_t count);

}  // namespace trireme
