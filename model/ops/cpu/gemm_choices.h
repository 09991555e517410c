#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "model/ops/cpu/matmul.h"

namespace trireme::ops::cpu {

enum class GemmLibrary : std::uint8_t { kOpenBlas, kOneDnn, kOwn };
inline constexpr GemmLibrary kGemmLibraries[] = {GemmLibrary::kOpenBlas, GemmLibrary::kOneDnn,
                                                 GemmLibrary::kOwn};
const char* name_of(GemmLibrary library);  // "openblas", "onednn", "trireme": stored by name
std::optional<GemmLibrary> library_named(std::string_view name);

// Which library multiplies which shapes on which machine. They differ in the
// last bits, so a run keeps its table: a resumed run that is given the same table
// computes the same bits, whatever a new measurement would say.
class GemmChoices {
 public:
  GemmChoices() = default;

  // From json(); throws ConfigError saying what is wrong with the text.
  static GemmChoices parse(const std::string& json);
  std::string json() const;

  // A machine is its processor, its libraries and a number of threads.
  std::optional<GemmLibrary> find(const std::string& machine, const std::string& shape) const;
  void set(const std::string& machine, const std::string& shape, GemmLibrary library);
  // Takes over what is not chosen here yet.
  void merge(const GemmChoices& other);
  bool empty() const { return chosen_.empty(); }
  bool operator==(const GemmChoices&) const = default;

 private:
  std::map<std::string, std::map<std::string, GemmLibrary>> chosen_;
};

// The class of shapes that share a choice, e.g. "float32 nt 256 2560 768 add":
// extents are rounded up to three significant bits, as those of a mixture of
// experts change with every batch.
std::string choice_key(const MatMulShape& shape);

}  // namespace trireme::ops::cpu
