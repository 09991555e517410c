#pragma once
#include <array>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>

#include "model/ops/choice_table.h"

// Built without CUDA too, so that a run which changes machines keeps its choices.
namespace trireme::ops::cuda {

// A machine's name starts with it.
inline constexpr const char* kMachinePrefix = "cuda: ";

// The words of a cublasLtMatmulAlgo_t, which are good for one version of cuBLASLt on one kind
// of device. As text: "cublaslt:" and 128 hexadecimal digits.
using Algorithm = std::array<std::uint64_t, 8>;
std::string text_of(const Algorithm& algorithm);
std::optional<Algorithm> algorithm_named(const std::string& text);

// Of a ChoiceTable: whether `way` is an algorithm's text.
bool is_algorithm(const std::string& machine, const std::string& way);

// The choices of this process, for any thread.
class ProcessChoices {
 public:
  ChoiceTable copy() const;
  // These come before those that are here.
  void use(const ChoiceTable& table);
  std::optional<std::string> find(const std::string& machine, const std::string& shape) const;
  void set(const std::string& machine, const std::string& shape, const std::string& way);
  // Counts the calls of use(): what was decided before one may no longer hold.
  int generation() const;

 private:
  mutable std::mutex mutex_;
  ChoiceTable table_;
  int generation_ = 0;
};
ProcessChoices& process_choices();

}  // namespace trireme::ops::cuda
