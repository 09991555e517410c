#pragma once
#include <array>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

// A secret shared by the processes of one run: 128 random bits. That of a supervisor and its
// agents is kept for the life of the run in RUN_DIR/control-token, which only its owner may read;
// that of a start's ranks goes over MPI.
class RunToken {
 public:
  static constexpr std::size_t kBytes = 16;
  static constexpr std::size_t kTagBytes = 32;
  using Tag = std::array<unsigned char, kTagBytes>;

  // Draws it where the run has none yet. Both throw EnvironmentError, also where the file could
  // be read or written by others.
  static RunToken make(const std::filesystem::path& run_dir);
  static RunToken read(const std::filesystem::path& run_dir);
  explicit RunToken(const std::array<unsigned char, kBytes>& bytes) : bytes_(bytes) {}

  // "TRIREME_RUN=...": what the run's ranks have in their environment, by which they are found. It
  // tells nothing of the token.
  std::string mark() const;

  // HMAC-SHA-256 (RFC 2104) of `text`: not computable without the token.
  Tag tag(std::string_view text) const { return tag_by(bytes_, text); }
  static Tag tag_by(std::span<const unsigned char> key, std::string_view text);
  // In a time that does not tell where they differ.
  static bool same(const Tag& one, std::string_view other);

 private:
  std::array<unsigned char, kBytes> bytes_;
};

// So many unpredictable bytes.
std::string random_bytes(std::size_t count);

}  // namespace trireme
