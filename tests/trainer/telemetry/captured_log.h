#pragma once
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <sstream>
#include <string>

#include "model/base/log.h"

namespace trireme {

// While it lives the program's log goes into a string. (Googletest's own capture is a
// file, and so subject to FileSizeLimit.)
class CapturedLog {
 public:
  CapturedLog() {
    auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text_);
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("captured", std::move(sink)));
  }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;
  ~CapturedLog() { set_up_logging(); }

  std::string text() const { return text_.str(); }
  int count(const std::string& what) const {
    const std::string all = text();
    int found = 0;
    for (std::size_t at = 0; (at = all.find(what, at)) != std::string::npos; ++at) ++found;
    return found;
  }

 private:
  std::ostringstream text_;
};

}  // namespace trireme
