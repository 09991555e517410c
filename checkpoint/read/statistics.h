#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace trireme::checkpoint {

// Statistics of a logical tensor; the moments are those of its finite elements.
struct Statistics {
  std::int64_t elements = 0;
  std::int64_t zeros = 0;
  std::int64_t not_finite = 0;
  double least = 0;
  double most = 0;
  double mean = 0;
  double deviation = 0;  // population standard deviation
};

// Throws CheckpointError if the tensor is missing or damaged.
Statistics statistics_of(const std::filesystem::path& folder, const std::string& tensor);

}  // namespace trireme::checkpoint
