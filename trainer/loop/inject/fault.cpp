#include "trainer/loop/inject/fault.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "model/base/error.h"
#include "trainer/loop/inject/words.h"

namespace trireme::inject {
namespace {

using flight::Operation;
using flight::Phase;

constexpr auto kLastPhase = Phase::kSnapshot;
constexpr auto kLastOperation = Operation::kSplit;
constexpr std::array<std::string_view, 7> kActions{"kill",  "abort", "stop", "exit",
                                                   "throw", "hang",  "delay"};
constexpr std::chrono::milliseconds kDelay(50);

// The enumerator in [first, last] with this name, with '-' for a blank.
template <class Named>
std::optional<Named> named(std::string text, Named first, Named last) {
  std::replace(text.begin(), text.end(), '-', ' ');
  for (int i = static_cast<int>(first); i <= static_cast<int>(last); ++i) {
    if (text == flight::name_of(static_cast<Named>(i))) return static_cast<Named>(i);
  }
  return std::nullopt;
}

std::string known_phases() {
  std::string names;
  for (int i = 0; i <= static_cast<int>(kLastPhase); ++i) {
    std::string name = flight::name_of(static_cast<Phase>(i));
    std::replace(name.begin(), name.end(), ' ', '-');
    names += name + ", ";
  }
  for (int i = 1; i <= static_cast<int>(kLastOperation); ++i) {
    names += say(i > 1 ? ", " : "", flight::name_of(static_cast<Operation>(i)));
  }
  return names;
}

}  // namespace

std::optional<FaultInjection> FaultInjection::from(const Variables& variables) {
  const auto text = variables(kVariable);
  if (!text) return std::nullopt;
  return FaultInjection(*text);
}

FaultInjection::FaultInjection(std::string text) : text_(std::move(text)) {
  std::istringstream parts(text_);
  for (std::string part; std::getline(parts, part, ';');) faults_.push_back(parse(part));
  if (faults_.empty()) faults_.push_back(parse(text_));
}

FaultInjection::Fault FaultInjection::parse(const std::string& text) {
  auto values = parse_words(text).value_or(std::map<std::string, std::string>());
  const bool has_once = values.contains("once"), has_count = values.contains("count");
  const auto rank = parse_number<std::int64_t>(values["rank"]);
  const auto step = parse_number<std::int64_t>(values["step"]);
  const auto count = has_count ? parse_number<std::int64_t>(values["count"]) : 1;
  const auto phase = named(values["phase"], Phase::kStart, kLastPhase);
  const auto operation = named(values["phase"], Operation::kAllReduce, kLastOperation);
  const auto* const action = std::find(kActions.begin(), kActions.end(), values["action"]);
  const bool valid = rank && *rank >= 0 && step && *step >= 0 && count && *count >= 1 &&
                     (phase || operation) && action != kActions.end() &&
                     !(has_once && values["once"].empty());
  const std::size_t words = 4 + (has_once ? 1 : 0) + (has_count ? 1 : 0);
  if (!valid || values.size() != words) {
    throw ConfigError(say(kVariable, "=\"", text,
                          "\": expected a value like \"rank=2 step=5 phase=backward "
                          "action=kill count=1 once=FILE\"; actions: kill, abort, stop, exit, "
                          "throw, hang, delay; phases: ",
                          known_phases()));
  }
  return {.rank = *rank,
          .step = *step,
          .phase = phase,
          .operation = operation,
          .action = static_cast<Action>(action - kActions.begin()),
          .passed_over = *count - 1,
          .once = has_once ? values["once"] : std::string(),
          .text = text};
}

void FaultInjection::apply(int rank, const flight::Progress& at) {
  for (Fault& fault : faults_) {
    if (fault.rank != rank || at.step < fault.step) continue;
    const bool matches = fault.phase ? static_cast<Phase>(at.phase) == *fault.phase
                                     : static_cast<Operation>(at.operation) == fault.operation;
    if (!matches || fault.passed_over-- > 0) continue;
    if (claim_once(kVariable, fault.once)) inject(fault);
  }
}

void FaultInjection::inject(const Fault& fault) {
  switch (fault.action) {
    case Action::kKill:
      ::raise(SIGKILL);
      return;
    case Action::kAbort:
      std::abort();
    case Action::kStop:
      ::kill(::getpid(), SIGSTOP);
      return;
    case Action::kExit:
      std::_Exit(0);
    case Action::kThrow:
      throw std::runtime_error(say(kVariable, ": ", fault.text));
    case Action::kHang:
      for (;;) ::pause();
    case Action::kDelay:
      std::this_thread::sleep_for(kDelay);
      return;
  }
}

}  // namespace trireme::inject
