#include "trainer/commands/doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>

#include "model/device/devices.h"
#include "model/ops/gemm_float8.h"
#include "parallel/comm/launcher.h"
#include "trainer/commands/machine.h"
#include "trainer/config/reader.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/telemetry/human.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

void row(const std::string& name, const std::string& text) {
  fmt::print("{:<12} {}\n", name, text);
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

void tell_machine() {
  fmt::print("{}\n", program_text());
  row("host", host_name());
  row("processor", processor_text());
  row("memory", human_bytes(available_host_memory()) + " available");
  row("libraries", libraries_text());
  row("CUDA", cuda_text());
  for (const std::string& device : cuda_device_texts()) row("devices", device);
  const int ranks = launched_ranks(environment_variable);
  row("ranks", ranks == 1 ? std::string("one, started without a launcher")
                          : fmt::format("{}, started by a launcher", ranks));
}

// The folder itself or, where it does not exist, the nearest above it that does.
fs::path nearest_existing(const fs::path& folder) {
  fs::path path = folder;
  while (!fs::exists(path) && path.has_parent_path() && path != path.parent_path()) {
    path = path.parent_path();
  }
  return path;
}

// That a file can be made in the folder, tried; nothing is left behind.
std::string folder_text(const fs::path& folder) {
  const fs::path there = nearest_existing(folder);
  if (!fs::is_directory(there)) {
    throw EnvironmentError(say(folder.string(), ": ", there.string(), " is not a folder"));
  }
  std::string trial = (there / ".trireme-doctor-XXXXXX").string();
  const int descriptor = ::mkstemp(trial.data());
  if (descriptor < 0) {
    throw EnvironmentError(
        say(folder.string(), ": cannot write into ", there.string(), ": ", std::strerror(errno)));
  }
  ::close(descriptor);
  ::unlink(trial.c_str());
  return fmt::format("{}{}, writable, {} free", folder.string(),
                     there == folder ? "" : " (to be made)",
                     human_bytes(fs::space(there).available));
}

std::string device_text(const RunConfig& config) {
  const Device device = open_device(config.job.device, 0);
  if (engine_spec(config).factors == Factors::kFloat8) ops::require_float8(device);
  return fmt::format("{} (job.device = \"{}\")", say(device), config.job.device);
}

std::string ranks_text(const RunConfig& config) {
  const std::int64_t wanted = world_size(config.parallelism);
  const int launched = launched_ranks(environment_variable);
  if (launched > 1 && launched != wanted) {
    throw EnvironmentError(
        say("[parallelism] wants ", wanted, " ranks, and ", launched, " were launched"));
  }
  return wanted == 1 ? "one"
                     : fmt::format("{}, to be started by mpirun -n {} or srun", wanted, wanted);
}

// Only one rank's memory is known without the others; of a device that is missing, the CPU's.
std::string memory_text(const RunConfig& config) {
  if (world_size(config.parallelism) > 1) return "planned when the ranks are started";
  const Device device = cuda_devices().count > 0 ? open_device(config.job.device, 0) : Device{};
  const std::size_t needed = plan_engine(engine_spec(config), RankGroups(), device).memory.total();
  const std::size_t available = available_memory(device, 1);
  if (needed > available) {
    throw EnvironmentError(say("the run needs ", human_bytes(needed), " of memory, ",
                               human_bytes(available), " are available"));
  }
  return fmt::format("{} needed, {} available", human_bytes(needed), human_bytes(available));
}

// Throws one EnvironmentError with all that this machine has not.
void examine(const RunConfig& config) {
  std::string missing;
  const auto check = [&](const std::string& name, const std::function<std::string()>& look) {
    try {
      row(name, look());
    } catch (const EnvironmentError& error) {
      row(name, "MISSING: " + std::string(error.what()));
      missing += (missing.empty() ? "" : "; ") + std::string(error.what());
    }
  };
  check("run folder", [&] { return folder_text(config.job.dump_folder); });
  const fs::path checkpoints = checkpoint_folder(config);
  if (*checkpoints.lexically_relative(config.job.dump_folder).begin() == "..") {
    check("checkpoints", [&] { return folder_text(checkpoints); });
  }
  check("device", [&] { return device_text(config); });
  check("layout", [&] { return ranks_text(config); });
  check("plan", [&] { return memory_text(config); });
  std::fflush(stdout);
  if (!missing.empty()) throw EnvironmentError(missing);
}

}  // namespace

Command make_doctor(CLI::App& program, const std::vector<Override>& overrides) {
  CLI::App* app = program.add_subcommand(
      "doctor", "What this machine offers, and whether it is what a config asks for");
  const auto file = std::make_shared<std::string>();
  app->add_option("CONFIG", *file, "A run's config file, to be compared with the machine");
  app->footer("Exits with 5 when the config asks for what is not there. Changes nothing.");
  const auto run = [file, &overrides] {
    if (file->empty() && !overrides.empty()) {
      throw ConfigError(
          say("'trireme doctor' without a config takes no --", overrides.front().key));
    }
    tell_machine();
    if (!file->empty()) examine(load_config(*file, overrides).config);
    return ExitCode::kDone;
  };
  return {app, run, true};
}

}  // namespace trireme
