#include "model/base/outcome.h"

#include <exception>
#include <new>

#include "model/base/error.h"

namespace trireme {
namespace {

// The first byte is the exit code of the error, kDone before a result; or this, which is no code.
constexpr char kMismatch = 'M';

std::string outcome(ExitCode code, const std::string& text) {
  return static_cast<char>(code) + text;
}

}  // namespace

std::string outcome_of(const std::function<std::string()>& work) {
  try {
    return outcome(ExitCode::kDone, work());
  } catch (const MismatchError& error) {
    return kMismatch + std::string(error.what());
  } catch (const Error& error) {
    return outcome(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return outcome(ExitCode::kEnvironment, "out of memory");
  } catch (const std::exception& error) {
    return outcome(ExitCode::kInternal, error.what());
  }
}

std::string result_of(const std::string& outcome, const std::string& who) {
  const std::string text = outcome.substr(1);
  if (outcome.front() == kMismatch) throw MismatchError(who + text);
  switch (const auto code = static_cast<ExitCode>(outcome.front())) {
    case ExitCode::kDone:
      return text;
    case ExitCode::kCheckpoint:
      throw CheckpointError(who + text);
    case ExitCode::kEnvironment:
      throw EnvironmentError(who + text);
    default:
      throw Error(who + text, code);
  }
}

}  // namespace trireme
