#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "model/ops/choice_table.h"

// Also compiled without CUDA, so that a run which changes machines keeps its choices.
namespace trireme::ops::cuda {

// Prefix of the machine name.
inline constexpr const char* kMachinePrefix = "cuda: ";

// The words of a cublasLtMatmulAlgo_t, valid for one version of cuBLASLt and one device type. As
// text: "cublaslt:" and 128 hexadecimal digits.
using Algorithm = std::array<std::uint64_t, 8>;
std::string text_of(const Algorithm& algorithm);
std::optional<Algorithm> algorithm_named(const std::string& text);

// ChoiceTable::Knows: whether `way` is the text of an algorithm.
bool is_algorithm(const std::string& machine, const std::string& way);

// The choices of this process. Thread-safe.
class ProcessChoices {
 public:
  ChoiceTable copy() const;
  // These take precedence over existing choices.
  void use(const ChoiceTable& table);
  std::optional<std::string> find(const std::string& machine, const std::string& shape) const;
  void set(const std::string& machine, const std::string& shape, const std::string& way);
  // Number of calls of use(): cached decisions of an earlier generation may be outdated.
  int generation() const;

 private:
  mutable std::mutex mutex_;
  ChoiceTable table_;
  int generation_ = 0;
};
ProcessChoices& process_choices();

}  // namespace trireme::ops::cuda
