#include "model/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <unistd.h>

#include <memory>
#include <string>

namespace trireme {

void set_up_logging(spdlog::level::level_enum level, std::string_view who) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>("trireme", std::move(sink));
  // Carriage return and "erase to the end of the line".
  std::string pattern = ::isatty(STDERR_FILENO) ? "\r\x1b[K" : "";
  pattern += "%H:%M:%S %^%l%$: ";
  for (const char c : who) pattern += c == '%' ? std::string("%%") : std::string(1, c);
  if (!who.empty()) pattern += ": ";
  logger->set_pattern(pattern + "%v");
  logger->set_level(level);
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

}  // namespace trireme
