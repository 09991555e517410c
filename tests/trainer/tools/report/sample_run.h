#pragma once
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/trainer/telemetry/scratch_folder.h"

namespace trireme {

// A run folder that a test fills.
class SampleRun {
 public:
  const std::filesystem::path& path() const { return folder_.path(); }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }

 private:
  ScratchFolder folder_;
};

}  // namespace trireme
