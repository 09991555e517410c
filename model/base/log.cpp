#include "model/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "model/base/terminal.h"

namespace trireme {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  return level == LogLevel::kInfo ? spdlog::level::info : spdlog::level::warn;
}

}  // namespace

void set_up_logging(LogLevel level, std::string_view who) {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
  if (forbids_color()) sink->set_color_mode(spdlog::color_mode::never);
  auto logger = std::make_shared<spdlog::logger>("trireme", std::move(sink));
  // Carriage return and "erase to the end of the line".
  std::string pattern = can_rewrite_lines(STDERR_FILENO) ? "\r\x1b[K" : "";
  pattern += "%H:%M:%S %^%l%$: ";
  for (const char c : who) pattern += c == '%' ? std::string("%%") : std::string(1, c);
  if (!who.empty()) pattern += ": ";
  logger->set_pattern(pattern + "%v");
  logger->set_level(spdlog_level(level));
  logger->flush_on(spdlog::level::trace);
  spdlog::set_default_logger(std::move(logger));
}

void log_text(LogLevel level, std::string_view text) {
  spdlog::log(spdlog_level(level), text);
}

}  // namespace trireme
