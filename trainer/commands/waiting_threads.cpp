#include "trainer/commands/waiting_threads.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace trireme {

void spin_briefly(char** words) {
  // Some ten microseconds: within 2 % of the default of 300,000 for GPT-2 5M on a quiet machine.
  constexpr const char* kSpins = "10000";
  constexpr std::array<std::string_view, 7> kComputing = {"train",  "launch", "eval", "generate",
                                                          "verify", "doctor", "plan"};
  if (!words[0] || !words[1] || std::ranges::count(kComputing, words[1]) == 0) return;
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  if (::setenv("GOMP_SPINCOUNT", kSpins, 1) != 0) return;
  // By its own path, which gives ps and pkill the name. The path is invalid if the program was
  // replaced meanwhile.
  std::error_code why;
  ::execv(std::filesystem::read_symlink("/proc/self/exe", why).c_str(), words);
  ::execv("/proc/self/exe", words);
}

}  // namespace trireme
