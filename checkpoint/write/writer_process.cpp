#include "checkpoint/write/writer_process.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "checkpoint/hdf5/child.h"
#include "model/base/error.h"
#include "model/base/outcome.h"

namespace trireme::checkpoint {
namespace {

// Yields the cores to training, but finishes before the next save is due.
constexpr int kNiceness = 12;
constexpr const char* kWriter = "the process that writes checkpoints";

bool send_all(int socket, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool send_text(int socket, const std::string& text) {
  const std::uint64_t length = text.size();
  return send_all(socket, &length, sizeof(length)) && send_all(socket, text.data(), text.size());
}

bool receive_all(int socket, void* data, std::size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(socket, at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

[[noreturn]] void serve_for_ever(int socket, const WriterProcess::Serve& serve) {
  ::setpriority(PRIO_PROCESS, 0, kNiceness);
  std::uint64_t length = 0;
  while (receive_all(socket, &length, sizeof(length))) {
    std::string request(length, '\0');
    if (!receive_all(socket, request.data(), length)) break;
    if (!send_text(socket, outcome_of([&] { return serve(request); }))) break;
  }
  ::_exit(0);
}

}  // namespace

WriterProcess::WriterProcess(Serve serve) : serve_(std::move(serve)) {
  launch();
}

WriterProcess::~WriterProcess() {
  end();
}

void WriterProcess::launch() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw EnvironmentError(say("cannot start ", kWriter, ": ", std::strerror(errno)));
  }
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ == 0) {
    become_child(ends[1], parent);
    serve_for_ever(ends[1], serve_);
  }
  const int reason = errno;
  ::close(ends[1]);
  socket_ = ends[0];
  if (process_ > 0) return;
  ::close(socket_);
  socket_ = -1;
  throw EnvironmentError(say("cannot start ", kWriter, ": ", std::strerror(reason)));
}

void WriterProcess::end() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
  if (process_ <= 0) return;
  ::kill(process_, SIGKILL);  // ends its work too
  while (::waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  process_ = -1;
}

void WriterProcess::start(const std::string& request) {
  require(!busy_, kWriter, " is busy");
  answer_.clear();
  died_ = false;
  // A process killed since the last request is detected on the first attempt.
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (socket_ < 0) launch();
    busy_ = send_text(socket_, request);
    if (busy_) return;
    end();
  }
  throw EnvironmentError(say(kWriter, " does not accept requests"));
}

bool WriterProcess::whole() const {
  std::uint64_t length = 0;
  if (answer_.size() < sizeof(length)) return false;
  std::memcpy(&length, answer_.data(), sizeof(length));
  return answer_.size() - sizeof(length) >= length;
}

void WriterProcess::receive(bool wait) {
  std::array<char, 65536> part{};
  while (!whole() && !died_) {
    const ssize_t got = ::recv(socket_, part.data(), part.size(), wait ? 0 : MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      died_ = true;
    } else {
      answer_.append(part.data(), static_cast<std::size_t>(got));
    }
  }
}

bool WriterProcess::done() {
  require(busy_, kWriter, " has no pending request");
  receive(/*wait=*/false);
  return whole() || died_;
}

std::string WriterProcess::result() {
  require(busy_, kWriter, " has no pending request");
  receive(/*wait=*/true);
  busy_ = false;
  if (died_) {
    end();
    throw EnvironmentError(say(kWriter, " ended abnormally while writing it"));
  }
  return result_of(answer_.substr(sizeof(std::uint64_t)));
}

}  // namespace trireme::checkpoint
