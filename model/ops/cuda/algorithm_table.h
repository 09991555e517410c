#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

// Built without CUDA too, so that a run which changes machines keeps its choices.
namespace trireme::ops::cuda {

// A machine's name starts with it.
inline constexpr const char* kMachinePrefix = "cuda: ";

// The words of a cublasLtMatmulAlgo_t, which are good for one version of cuBLASLt on one kind
// of device. As text: "cublaslt:" and 128 hexadecimal digits.
using Algorithm = std::array<std::uint64_t, 8>;

// Which algorithm multiplies which shapes on which machine.
class AlgorithmTable {
 public:
  // From json(); throws ConfigError saying what is wrong with the text.
  static AlgorithmTable parse(const std::string& json);
  std::string json() const;

  std::optional<Algorithm> find(const std::string& machine, const std::string& shape) const;
  void set(const std::string& machine, const std::string& shape, const Algorithm& algorithm);
  // Takes over what is not chosen here yet.
  void merge(const AlgorithmTable& other);
  bool empty() const { return chosen_.empty(); }
  bool operator==(const AlgorithmTable&) const = default;

 private:
  std::map<std::string, std::map<std::string, Algorithm>> chosen_;
};

// The table of this process, for any thread.
class ProcessAlgorithms {
 public:
  AlgorithmTable copy() const;
  // These come before those that are here.
  void use(const AlgorithmTable& table);
  std::optional<Algorithm> find(const std::string& machine, const std::string& shape) const;
  void set(const std::string& machine, const std::string& shape, const Algorithm& algorithm);
  // Counts the calls of use(): what was decided before one may no longer hold.
  int generation() const;

 private:
  mutable std::mutex mutex_;
  AlgorithmTable table_;
  int generation_ = 0;
};
ProcessAlgorithms& process_algorithms();

// The class of extents that share a choice, "256 2560 768": rounded up to three significant
// bits, as those of a mixture of experts change with every batch.
std::string extents_key(std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace trireme::ops::cuda
