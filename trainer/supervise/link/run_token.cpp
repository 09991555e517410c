#include "trainer/supervise/link/run_token.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "model/base/error.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr const char* kName = "control-token";

void set_up_library() {
  if (::sodium_init() < 0) throw EnvironmentError("libsodium failed to initialize");
}

[[noreturn]] void fail(const char* what, const fs::path& path) {
  throw EnvironmentError(say("cannot ", what, " ", path.string(), ": ", std::strerror(errno)));
}

// Writes a temporary file and links it to its final name, so that readers see a complete token. If
// two processes do this at once, the first one's token stays.
void draw(const fs::path& path) {
  const fs::path temporary = path.string() + say(".tmp-", ::getpid());
  ::unlink(temporary.c_str());
  const int descriptor = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (descriptor < 0) fail("create", temporary);
  const std::string bytes = random_bytes(RunToken::kBytes);
  const bool written =
      ::write(descriptor, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()) &&
      ::fsync(descriptor) == 0;
  const int why = errno;
  ::close(descriptor);
  const bool named = written && (::link(temporary.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const int why_not_named = written ? errno : why;
  ::unlink(temporary.c_str());
  errno = why_not_named;
  if (!named) fail("write", path);
}

}  // namespace

RunToken RunToken::make(const fs::path& run_dir) {
  const fs::path path = run_dir / kName;
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) draw(path);
  return read(run_dir);
}

RunToken RunToken::read(const fs::path& run_dir) {
  const fs::path path = run_dir / kName;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) fail("open", path);
  struct stat facts {};
  std::array<unsigned char, kBytes + 1> bytes{};
  const bool is_known = ::fstat(descriptor, &facts) == 0;
  const ssize_t size = ::read(descriptor, bytes.data(), bytes.size());
  ::close(descriptor);
  if (!is_known || size < 0) fail("read", path);
  if (facts.st_uid != ::geteuid() || (facts.st_mode & 077) != 0) {
    throw EnvironmentError(
        say(path.string(), " is accessible to other users (it needs mode 0600): remove it"));
  }
  if (size != static_cast<ssize_t>(kBytes)) {
    throw EnvironmentError(say(path.string(), " is not a token of ", kBytes, " bytes: remove it"));
  }
  std::array<unsigned char, kBytes> token{};
  std::memcpy(token.data(), bytes.data(), token.size());
  return RunToken(token);
}

std::string RunToken::mark() const {
  constexpr std::size_t kMarkBytes = 8;
  std::array<char, 2 * kMarkBytes + 1> hex{};
  ::sodium_bin2hex(hex.data(), hex.size(), tag("mark").data(), kMarkBytes);
  return say("TRIREME_RUN=", hex.data());
}

RunToken::Tag RunToken::tag_by(std::span<const unsigned char> key, std::string_view text) {
  set_up_library();
  static_assert(kTagBytes == crypto_auth_hmacsha256_BYTES);
  crypto_auth_hmacsha256_state state;
  Tag tag{};
  ::crypto_auth_hmacsha256_init(&state, key.data(), key.size());
  ::crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(text.data()),
                                  text.size());
  ::crypto_auth_hmacsha256_final(&state, tag.data());
  return tag;
}

bool RunToken::same(const Tag& one, std::string_view other) {
  return other.size() == one.size() && ::sodium_memcmp(one.data(), other.data(), one.size()) == 0;
}

std::string random_bytes(std::size_t count) {
  set_up_library();
  std::string bytes(count, '\0');
  ::randombytes_buf(bytes.data(), bytes.size());
  return bytes;
}

}  // namespace trireme
