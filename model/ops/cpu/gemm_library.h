#pragma once
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

// ChoiceTable::Knows: whether `way` is the name of a library.
bool is_library(const std::string& machine, const std::string& way);

// Key of a class of shapes that share a choice: "float32 nt 256 2560 768 add".
std::string choice_key(const MatMulShape& shape);

}  // namespace trireme::ops::cpu
