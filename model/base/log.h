#pragma once
#include <spdlog/spdlog.h>

#include <string_view>

namespace trireme {

// Sets up spdlog's default logger for the program: to stderr, one line a message,
//   12:00:00 warning: text
// `who` ("rank 3 on node7"; empty for a single process) goes before the text. A line
// drawn over and over on a terminal (the progress bar) is erased first. Use
// spdlog::info, warn and error afterwards. Call once, in main; a later call replaces.
void set_up_logging(spdlog::level::level_enum level = spdlog::level::info,
                    std::string_view who = {});

}  // namespace trireme
