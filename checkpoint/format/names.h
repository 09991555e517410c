#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/tensor/dtype.h"

namespace trireme::checkpoint {

// "step-00000100"
std::string step_name(std::int64_t step);
// The step of such a name; nullopt if it is not exactly in this form.
std::optional<std::int64_t> step_of(std::string_view name);

// "shard-00000-of-00001.h5", and of a snapshot in memory "shard-00000-of-00001.raw".
std::string shard_name(std::size_t shard, std::size_t of);
std::string raw_shard_name(std::size_t shard, std::size_t of);

// Before the names of parameters, and of their exponential averages, in those of tensors.
inline constexpr std::string_view kWeightsPrefix = "model/", kAveragePrefix = "ema/";

// Whether `name` is a valid name of a logical tensor; see Piece.
bool is_tensor_name(std::string_view name);

std::optional<DType> dtype_of(std::string_view name);

// A new random version-4 UUID.
std::string new_uuid();
bool is_uuid(std::string_view text);

// Current time in UTC: "2025-01-31T12:00:00Z".
std::string now_text();

}  // namespace trireme::checkpoint
