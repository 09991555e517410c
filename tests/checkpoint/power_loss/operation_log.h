#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "tests/file_faults/record.h"

namespace trireme::checkpoint {

// One operation of a log that tests/file_faults wrote.
struct Operation {
  file_faults::Kind kind = file_faults::Kind::kSync;
  std::string path, other;
  std::uint64_t offset = 0, size = 0;
  std::string bytes;
};

std::vector<Operation> read_operations(const std::filesystem::path& log);

}  // namespace trireme::checkpoint
