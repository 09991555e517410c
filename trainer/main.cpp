#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "model/base/error.h"
#include "model/base/log.h"
#include "model/ops/cpu/simd/isa.h"
#include "parallel/comm/launcher.h"
#include "trainer/commands/command.h"
#include "trainer/commands/machine.h"
#include "trainer/commands/usage.h"
#include "trainer/config/override.h"

namespace trireme {
namespace {

// Restarts this program with the same arguments and a short spin time of OpenMP threads. Long
// spinning slows down working threads if other programs use the cores (3.5 times with two busy
// processes on two cores). libgomp reads the spin time only when it is loaded. Does nothing if
// OMP_WAIT_POLICY or GOMP_SPINCOUNT is set, or if the restart fails.
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

// Each step allocates again what the last one freed, oneDNN's packed operands for example. If the
// memory was returned meanwhile, page faults take up to 4 % of a step of a bfloat16 MoE model.
void keep_freed_memory() {
  constexpr int kMostOfHeap = 32 << 20;  // the most that glibc accepts; larger blocks are mapped
  ::mallopt(M_MMAP_THRESHOLD, kMostOfHeap);
  ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
}

constexpr const char* kExitCodes =
    "Override config values with --section.key=value; 'trireme config keys' lists the keys.\n"
    "\n"
    "Exit codes of all commands:\n"
    "     0  done\n"
    "     1  internal error (a bug in trireme)\n"
    "     2  usage or config error; import-config: keys without a counterpart\n"
    "     3  data error; data check, audit: a check failed\n"
    "     4  checkpoint error; checkpoint verify, diff: damaged or different\n"
    "     5  environment or device error; plan: does not fit; doctor: a check failed\n"
    "     6  training diverged; verify: the layouts differ\n"
    "     7  a peer rank failed or stalled; launch: elastic.max_restarts exhausted\n"
    "    75  stopped by SIGTERM, SIGUSR1 or Ctrl-C after committing a checkpoint: requeue the job\n"
    "    93  no new step in three starts in a row: do not requeue the job";

ExitCode run_chosen(const std::vector<Command>& commands, const CommandLine& line) {
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    if (!command.takes_overrides && !line.overrides.empty()) {
      throw ConfigError(say("'trireme ", command.app->get_name(),
                            "' reads no config, so it takes no --", line.overrides.front().key));
    }
    return command.run();
  }
  throw ConfigError("no command given; see 'trireme --help'");
}

ExitCode run(const std::vector<std::string>& words) {
  simd::require_baseline();
  CLI::App program("Pretrains large language models, from a laptop to a Slurm cluster.", "trireme");
  program.set_version_flag("-V,--version", version_text,
                           "Print the versions of the program and its libraries, and the devices");
  const CommandLine line = split_overrides(words);
  const std::vector<Command> commands = make_commands(program, line.overrides);
  program.footer(kExitCodes);  // after make_commands(): subcommands inherit a footer
  allow_unknown_words(program);
  try {
    // CLI11 expects the arguments in reverse order.
    program.parse(std::vector<std::string>(line.arguments.rbegin(), line.arguments.rend()));
  } catch (const CLI::Success& asked) {
    program.exit(asked);  // prints the help or the version
    return ExitCode::kDone;
  } catch (const CLI::ParseError& error) {
    throw ConfigError(usage_complaint(program, error));
  }
  if (const std::string text = unknown_word_complaint(program); !text.empty()) {
    throw ConfigError(text);
  }
  return run_chosen(commands, line);
}

int report(const char* what, ExitCode code, bool on_all_ranks = false) {
  // Every rank reads the same arguments and config, so rank 0 reports errors in them; the others
  // wait for it, because the launcher kills all ranks when the first one exits.
  if ((on_all_ranks || code == ExitCode::kUsage) && launched_rank(environment_variable) > 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return static_cast<int>(code);
  }
  std::fflush(stdout);
  std::fprintf(stderr, "trireme: error: %s\n", what);
  return static_cast<int>(code);
}

}  // namespace

}  // namespace trireme

int main(int argc, char** argv) {
  using trireme::ExitCode;
  trireme::spin_briefly(argv);
  trireme::keep_freed_memory();
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit fails the write instead of killing the run
  try {
    trireme::set_up_logging();
    return static_cast<int>(
        trireme::run(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc)));
  } catch (const trireme::Error& error) {
    return trireme::report(error.what(), error.code(), error.on_all_ranks());
  } catch (const std::bad_alloc&) {
    return trireme::report("out of memory", ExitCode::kEnvironment);
  } catch (const std::exception& error) {
    return trireme::report(error.what(), ExitCode::kInternal);
  }
}
