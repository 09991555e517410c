#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace trireme::ops {

// Which way multiplies which class of shapes on which machine: what a run's choices and a
// user's timings are kept as. Ways differ in the last bits, so a run keeps its table.
class ChoiceTable {
 public:
  // Whether a machine has such a way.
  using Knows = bool (*)(const std::string& machine, const std::string& way);
  // From json(); throws ConfigError saying what is wrong with the text.
  static ChoiceTable parse(const std::string& json, Knows knows);
  std::string json() const;

  std::optional<std::string> find(const std::string& machine, const std::string& shape) const;
  void set(const std::string& machine, const std::string& shape, const std::string& way);
  // Takes over what is not chosen here yet.
  void merge(const ChoiceTable& other);
  bool empty() const { return chosen_.empty(); }
  bool operator==(const ChoiceTable&) const = default;

 private:
  std::map<std::string, std::map<std::string, std::string>> chosen_;
};

// The class of extents that share a choice, "256 2560 768": rounded up to three significant
// bits, as those of a mixture of experts change with every batch.
std::string extents_key(std::int64_t m, std::int64_t n, std::int64_t k);

}  // namespace trireme::ops
