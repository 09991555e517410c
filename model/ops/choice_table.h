#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace trireme::ops {

// Maps machine and shape class to the chosen GEMM implementation; stores the choices of a run and
// the timings of a user. Implementations differ in the last bits, so a run keeps its table.
class ChoiceTable {
 public:
  // Whether a machine has this implementation.
  using Knows = bool (*)(const std::string& machine, const std::string& way);
  // Parses the text of json(); throws ConfigError describing the problem.
  static ChoiceTable parse(const std::string& json, Knows knows);
  std::string json() const;

  std::optional<std::string> find(const std::string& machine, const std::string& shape) const;
  void set(const std::string& machine, const std::string& shape, const std::string& way);
  // Adds the choices of `other` for shapes without a choice.
  void merge(const ChoiceTable& other);
  bool empty() const { return chosen_.empty(); }
  bool operator==(const ChoiceTable&) const = default;

 private:
  std::map<std::string, std::map<std::string, std::string>> chosen_;
};

// Key of a class of extents that share a choice, "256 2560 768": rounded up to three significant
// bits, since those of a mixture of experts change with every batch.
std::string extents_key(std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace trireme::ops
