#pragma once
#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace trireme {

enum class LogLevel { kInfo, kWarning };

// Sets up the log: to stderr, one line per message,
//   12:00:00 warning: text
// prefixed by `who` ("rank 3 on node7"; empty for a single process). A progress bar drawn on the
// terminal line is erased first. Messages below `level` are dropped. Called once, in main; a later
// call replaces the settings.
void set_up_logging(LogLevel level = LogLevel::kInfo, std::string_view who = {});

// Logs one message. Implemented in log.cpp to keep spdlog's expensive headers out of this file.
void log_text(LogLevel level, std::string_view text);

template <typename... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_text(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}

template <typename... Args>
void log_warning(fmt::format_string<Args...> format, Args&&... args) {
  log_text(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace trireme
