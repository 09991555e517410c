#include "trainer/commands/command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>

#include "model/base/host_name.h"
#include "model/base/human.h"
#include "model/device/cpu/threads.h"
#include "model/device/devices.h"
#include "model/ops/gemm.h"
#include "parallel/comm/launcher.h"
#include "trainer/commands/machine.h"
#include "trainer/config/reader.h"
#include "trainer/engine/data_feed.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/step_plan.h"
#include "trainer/supervise/preflight/job.h"
#include "trainer/supervise/watchdog/flight_recorder.h"
#include "trainer/supervise/watchdog/recorder_text.h"
#include "trainer/tools/plan/calibrate/calibrate.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

void row(const std::string& name, const std::string& text) {
  fmt::print("{:<12} {}\n", name, text);
}

void tell_machine() {
  fmt::print("{}\n", program_text());
  row("host", own_host_name());
  row("processor", processor_text());
  row("memory", human_bytes(available_host_memory()) + " available");
  row("libraries", libraries_text());
  row("CUDA", cuda_text());
  for (const std::string& device : cuda_device_texts()) row("devices", device);
  const int ranks = launched_ranks(environment_variable);
  row("ranks", ranks == 1 ? std::string("one, started without a launcher")
                          : fmt::format("{}, started by a launcher", ranks));
}

// The folder itself, or its nearest parent that exists.
fs::path nearest_existing(const fs::path& folder) {
  fs::path path = folder;
  while (!fs::exists(path) && path.has_parent_path() && path != path.parent_path()) {
    path = path.parent_path();
  }
  return path;
}

// Tests that a file can be created in the folder, and removes it.
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
                     there == folder ? "" : " (to be created)",
                     human_bytes(fs::space(there).available));
}

std::string device_text(const RunConfig& config) {
  const Device device = open_device(config.job.device, 0);
  if (engine_spec(config).precision == MatmulPrecision::kFloat8) ops::require_float8(device);
  return fmt::format("{} (job.device = \"{}\")", say(device), config.job.device);
}

std::string ranks_text(const RunConfig& config) {
  const std::int64_t needed = world_size(config.parallelism);
  const int launched = launched_ranks(environment_variable);
  if (launched > 1 && launched != needed) {
    throw EnvironmentError(
        say("[parallelism] needs ", needed, " ranks, but ", launched, " were launched"));
  }
  return needed == 1 ? "one"
                     : fmt::format("{}, to be started with mpirun -n {} or srun", needed, needed);
}

// Memory can be planned here for one rank only; for a missing device the CPU is used.
std::string memory_text(const RunConfig& config) {
  if (world_size(config.parallelism) > 1) return "planned when the ranks are started";
  const Device device = cuda_devices().count > 0 ? open_device(config.job.device, 0) : Device{};
  const std::size_t needed = plan_memory(config, RankGroups(), device).total();
  const std::size_t available = available_memory(device, 1);
  if (needed > available) {
    throw EnvironmentError(say("the run needs ", human_bytes(needed), " of memory, but only ",
                               human_bytes(available), " are available"));
  }
  return fmt::format("{} needed, {} available", human_bytes(needed), human_bytes(available));
}

// Throws one EnvironmentError that lists everything the machine lacks.
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

void calibrate_to(const std::string& file, const std::string& on) {
  World world(environment_variable);
  const int threads = cpu::use_threads(0, world.local_size());
  const Device device = open_device(on, world.local_rank());
  if (device.is_cuda()) world.use_device(device);
  DeviceProfile profile = calibrate(world, device, calibration_sizes(device));
  const CopyRates copies = device.is_cuda() ? measure_copies(device) : CopyRates{};
  profile.host = {.name = "pinned host memory",
                  .bandwidth = std::min(copies.to_device, copies.to_host)};
  if (world.rank() > 0) return;
  write_profile(file, profile);
  const ProductRate& rate =
      profile.rate(device.is_cuda() ? NumberFormat::kHalf : NumberFormat::kFloat32);
  row("device", profile.name);
  const Link& link = profile.network.within;
  row("ranks", fmt::format("{} of {} threads", world.size(), threads));
  row("matmul", fmt::format("{:.1f} GFLOP/s peak, typically {:.0f} % of it", rate.peak * 1e-9,
                            100 * rate.product));
  const std::string masked =
      rate.own_flash > 0 ? fmt::format(", {:.0f} % with document masks", 100 * rate.own_flash) : "";
  row("attention", fmt::format("{:.0f} % of the matmul peak{}", 100 * rate.flash, masked));
  if (copies.to_device > 0) {
    row("copies", fmt::format("{:.1f} GB/s to the device, {:.1f} GB/s to the host",
                              copies.to_device * 1e-9, copies.to_host * 1e-9));
  }
  row("memory", fmt::format("{:.1f} GB/s peak, typically {:.0f} % of it",
                            profile.memory_bandwidth * 1e-9, 100 * profile.streamed));
  row("link", fmt::format("{}: {:.2f} GB/s, {:.1f} us", link.name,
                          link.bandwidth * link.reached * 1e-9, link.latency * 1e6));
  row("written", file);
}

}  // namespace

Command make_doctor(CLI::App& program, const std::vector<Override>& overrides) {
  CLI::App* app = program.add_subcommand(
      "doctor", "Check machine, libraries, devices, links and file systems before a job");
  const auto file = std::make_shared<std::string>();
  const auto recorder = std::make_shared<std::string>();
  const auto json = std::make_shared<std::string>();
  auto* config = app->add_option("CONFIG", *file, "Config file to check the machine against");
  app->add_option("--flight-recorder", *recorder,
                  "Show what each rank of this run folder did last and which rank caused the stop")
      ->type_name("DIR")
      ->excludes(config);
  app->add_option("--json", *json,
                  "Write each rank's measurements to this file; a single rank is then checked like "
                  "the ranks of a job")
      ->type_name("FILE")
      ->needs(config);
  const auto profile = std::make_shared<std::string>();
  app->add_option(
         "--calibrate", *profile,
         "Measure throughput and write a profile for 'trireme plan --gpu FILE.json'; "
         "under mpirun or srun all ranks measure at once; launch them like the run, with the same "
         "binding to cores")
      ->type_name("FILE.json")
      ->excludes(config);
  const auto device = std::make_shared<std::string>("cpu");
  app->add_option("--device", *device, "Device that --calibrate measures")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str()
      ->excludes(config);
  app->footer(
      "Changes nothing. Fails if the machine lacks what the config needs.\n"
      "Under mpirun or srun every rank is checked: program, libraries, limits, clocks, devices,\n"
      "memory, matmul speed, bandwidth along each parallel axis, folders and token files. The\n"
      "ranks and nodes that fail a check are named.\n"
      "\n"
      "Example: mpirun -n 8 trireme doctor configs/tiny.toml --json preflight.json");
  const auto run = [file, recorder, json, profile, device, &overrides] {
    if (!recorder->empty() && overrides.empty()) {
      fmt::print("{}", recorder_text(read_flight_recorder(*recorder)));
      return ExitCode::kDone;
    }
    if (file->empty() && !overrides.empty()) {
      throw ConfigError(
          say("'trireme doctor' without a config takes no --", overrides.front().key));
    }
    if (!profile->empty()) {
      calibrate_to(*profile, *device);
      return ExitCode::kDone;
    }
    if (file->empty()) {
      tell_machine();
      return ExitCode::kDone;
    }
    const LoadedConfig loaded = load_config(*file, overrides);
    if (launched_ranks(environment_variable) > 1 || !json->empty()) {
      return preflight::examine({loaded, open_training_data}, *json);
    }
    tell_machine();
    examine(loaded.config);
    return ExitCode::kDone;
  };
  return {app, run, true};
}

}  // namespace trireme
