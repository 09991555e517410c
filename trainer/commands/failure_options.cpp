#include "trainer/commands/failure_options.h"

#include <fmt/format.h>

#include "model/base/error.h"

namespace trireme {

CLI::Validator number_between(double least, double most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        double value = 0;
        const bool is_number = CLI::detail::lexical_cast(text, value);
        if (is_number && value >= least && value <= most) return std::string();
        return fmt::format("must be a number from {:g} to {:g}, not {}", least, most, text);
      },
      "");
}

void add_failure_options(CLI::App& app, FailureOptions& options) {
  CLI::Option* const mtbf =
      app.add_option(
             "--mtbf", options.mtbf_hours,
             "Mean time between failures of the whole run, in hours, to predict goodput and "
             "recommend checkpoint intervals; the days and the cost then include what "
             "saves and failures take")
          ->check(number_between(1e-3, 1e9))
          ->type_name("HOURS");
  const double published = published_failures_per_device_year();
  app.add_option("--failures-per-device-year", options.per_device_year,
                 fmt::format("Failures of a device in a year, instead of --mtbf; 'published': "
                             "{:.3f}, of Llama 3 405B on 16,384 GPUs",
                             published))
      ->transform(CLI::Validator(
          [published](std::string& text) {
            if (text == "published") text = fmt::format("{}", published);
            return std::string();
          },
          ""))
      ->check(number_between(1e-6, 1e6))
      ->excludes(mtbf)
      ->type_name("RATE");
  app.add_option("--save-seconds", options.save_seconds,
                 "Seconds that one checkpoint save blocks training (default: measured in the run "
                 "folder, otherwise estimated)")
      ->check(number_between(1e-6, 1e9))
      ->type_name("SECONDS");
  app.add_option("--restart-seconds", options.restart_seconds,
                 "Seconds from a detected failure to the first new step (default: measured in the "
                 "run folder, otherwise estimated)")
      ->check(number_between(1e-6, 1e9))
      ->type_name("SECONDS");
  app.add_option("--repair-hours", options.repair_hours,
                 "Hours until a lost node is back; the run continues on fewer nodes, or waits if "
                 "it cannot (default: a spare node replaces it at once)")
      ->check(number_between(1e-3, 1e6))
      ->type_name("HOURS");
  app.add_option(
         "--storage-bandwidth", options.storage_gigabytes,
         "Bandwidth of the file system in GB/s, for all ranks together (default: 2000; a rank "
         "gets at most 1 GB/s)")
      ->check(number_between(1e-6, 1e9))
      ->type_name("GB/S");
}

void require_failures(const FailureOptions& options) {
  if (options.are_known() || options == FailureOptions{}) return;
  throw ConfigError(
      "--save-seconds, --restart-seconds, --repair-hours and --storage-bandwidth have no effect "
      "without failures; add --mtbf or --failures-per-device-year");
}

}  // namespace trireme
