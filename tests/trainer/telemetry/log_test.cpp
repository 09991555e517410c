#include "model/base/log.h"

#include <gtest/gtest.h>

#include <regex>
#include <string>

namespace trireme {
namespace {

TEST(Log, a_line_has_time_level_who_and_text_on_stderr) {
  testing::internal::CaptureStderr();
  set_up_logging(LogLevel::kWarning, "rank 3 on node100%");
  log_info("not shown");
  log_warning("disk {}", "full");
  const std::string told = testing::internal::GetCapturedStderr();
  set_up_logging();
  EXPECT_TRUE(std::regex_match(
      told, std::regex(R"(\d\d:\d\d:\d\d warning: rank 3 on node100%: disk full\n)")))
      << told;
}

}  // namespace
}  // namespace trireme
