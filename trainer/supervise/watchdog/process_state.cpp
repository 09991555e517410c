#include "trainer/supervise/watchdog/process_state.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "model/base/error.h"

namespace trireme {

namespace {

// Fields of /proc/PID/stat (proc(5)) from field 3 on, after the program name, which may contain
// spaces.
std::optional<std::istringstream> fields_of(int pid) {
  std::ifstream file(say("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return std::nullopt;
  return std::istringstream(line.substr(std::min(line.rfind(')') + 1, line.size())));
}

}  // namespace

int parent_of_process(int pid) {
  auto fields = fields_of(pid);
  char state = '?';
  int parent = 0;
  return fields && *fields >> state >> parent ? parent : 0;
}

ProcessState state_of_process(int pid, std::int64_t recording_started) {
  auto opened = fields_of(pid);
  if (!opened) return ProcessState::kGone;
  std::istringstream& fields = *opened;
  char letter = '?';
  fields >> letter;
  constexpr int kBetween = 18;  // state is field 3, the start field 22
  std::string skipped;
  for (int i = 0; i < kBetween; ++i) fields >> skipped;
  std::int64_t ticks = 0;
  fields >> ticks;
  const double start_s = static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  if (start_s > static_cast<double>(recording_started) * 1e-9 + 1) return ProcessState::kGone;
  if (letter == 'Z' || letter == 'X') return ProcessState::kGone;
  return letter == 'T' || letter == 't' ? ProcessState::kStopped : ProcessState::kRuns;
}

}  // namespace trireme
