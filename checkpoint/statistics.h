#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace trireme::checkpoint {

// Of one logical tensor's elements; the moments are of the finite ones.
struct Statistics {
  std::int64_t elements = 0;
  std::int64_t zeros = 0;
  std::int64_t not_finite = 0;
  double least = 0;
  double most = 0;
  double mean = 0;
  double deviation = 0;  // root of the mean squared distance from the mean
};

// Throws CheckpointError when there is no such tensor or its bytes are damaged.
Statistics statistics_of(const std::filesystem::path& folder, const std::string& tensor);

}  // namespace trireme::checkpoint
