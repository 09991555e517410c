#include "trainer/restart/process_state.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

#include "model/base/error.h"

namespace trireme {

ProcessState state_of_process(int pid, std::int64_t ledger_started) {
  std::ifstream file(say("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return ProcessState::kGone;
  std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
  char letter = '?';
  fields >> letter;
  constexpr int kBetween = 18;  // state is field 3 and the start field 22 of proc(5)
  std::string skipped;
  for (int i = 0; i < kBetween; ++i) fields >> skipped;
  std::int64_t ticks = 0;
  fields >> ticks;
  const double start_s = static_cast<double>(ticks) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  if (start_s > static_cast<double>(ledger_started) * 1e-9 + 1) return ProcessState::kGone;
  if (letter == 'Z' || letter == 'X') return ProcessState::kGone;
  return letter == 'T' || letter == 't' ? ProcessState::kStopped : ProcessState::kRuns;
}

}  // namespace trireme
