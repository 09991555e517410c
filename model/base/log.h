#pragma once
#include <fmt/core.h>

#include <string_view>
#include <utility>

namespace trireme {

enum class LogLevel { kInfo, kWarning };

// Sets up the program's log: to stderr, one line a message,
//   12:00:00 warning: text
// `who` ("rank 3 on node7"; empty for a single process) goes before the text. A line drawn over and
// over on a terminal (the progress bar) is erased first. Messages below `level` are left out. Call
// once, in main; a later call replaces.
void set_up_logging(LogLevel level = LogLevel::kInfo, std::string_view who = {});

// One message. spdlog writes it; its headers, the heaviest of all, stay in log.cpp.
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
