#pragma once
#include <sstream>
#include <stdexcept>
#include <string>

namespace trireme {

// Exit codes of the process. Job scripts rely on them: do not renumber.
enum class ExitCode : int {
  kDone = 0,
  kInternal = 1,     // internal error
  kUsage = 2,        // command line or config: a restart does not help
  kData = 3,         // token files, tokenizers
  kCheckpoint = 4,   // a checkpoint or run folder
  kEnvironment = 5,  // machine, device, file system, libraries
  kDiverged = 6,     // loss or gradients are not finite
  kPeer = 7,         // another rank failed or stalled
  kStopped = 75,     // stopped by a signal after committing a checkpoint: requeue
  kNoProgress = 93,  // repeated restarts without a new step: do not requeue
};

// An unrecoverable failure. Caught once, in main, which prefixes the rank, prints the message and
// returns `code()`.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& what, ExitCode code = ExitCode::kInternal)
      : std::runtime_error(what), code_(code) {}
  ExitCode code() const { return code_; }

  // Whether every rank throws it, so that it is reported once.
  bool on_all_ranks() const { return on_all_ranks_; }
  void set_on_all_ranks() { on_all_ranks_ = true; }

 private:
  ExitCode code_;
  bool on_all_ranks_ = false;
};

// `throw on_all_ranks(DivergedError(...))` marks an error that all ranks throw.
template <class SomeError>
SomeError on_all_ranks(SomeError error) {
  error.set_on_all_ranks();
  return error;
}

// Invalid or unsupported request of the user.
struct ConfigError : Error {
  explicit ConfigError(const std::string& what) : Error(what, ExitCode::kUsage) {}
};
struct DataError : Error {
  explicit DataError(const std::string& what) : Error(what, ExitCode::kData) {}
};
struct CheckpointError : Error {
  explicit CheckpointError(const std::string& what) : Error(what, ExitCode::kCheckpoint) {}
};
// The checkpoint is intact but belongs to a different model. A run does not fall back to an older
// checkpoint because of it.
struct MismatchError : CheckpointError {
  using CheckpointError::CheckpointError;
};
struct EnvironmentError : Error {
  explicit EnvironmentError(const std::string& what) : Error(what, ExitCode::kEnvironment) {}
};
struct DivergedError : Error {
  explicit DivergedError(const std::string& what) : Error(what, ExitCode::kDiverged) {}
};
// Another rank failed, stalled, or is out of step with this one.
struct PeerError : Error {
  explicit PeerError(const std::string& what) : Error(what, ExitCode::kPeer) {}
};

template <class... Parts>
std::string say(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

// Captures the caller's location, so that require() can be a function. (clang-tidy 14 does not see
// std::source_location in libstdc++ 12; the builtins work everywhere.)
struct Condition {
  bool holds;
  const char* file;
  int line;
  // NOLINTNEXTLINE(google-explicit-constructor): implicit on purpose
  Condition(bool condition, const char* from = __builtin_FILE(), int at = __builtin_LINE())
      : holds(condition), file(from), line(at) {}
};

// Checks an internal invariant. Invalid input throws one of the errors above instead.
template <class... Parts>
void require(Condition condition, const Parts&... why) {
  if (condition.holds) return;
  throw Error(say(condition.file, ":", condition.line, ": ", why...));
}

}  // namespace trireme
