#pragma once
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "trainer/config/option.h"

namespace trireme {

// A value as TOML that reads back to the same value.
std::string to_toml(const Slot& slot);
std::string to_toml(double number);
std::string to_toml(std::string_view text);  // quoted

// Values of an enum in the order of the enum.
inline std::span<const std::string_view> names_of_values(Activation) {
  return kActivationNames;
}
inline std::span<const std::string_view> names_of_values(LayerType) {
  return kLayerTypeNames;
}
inline std::span<const std::string_view> names_of_values(RopeScaling::Type) {
  return kRopeTypeNames;
}
inline std::span<const std::string_view> names_of_values(Recompute) {
  return kRecomputeNames;
}
inline std::span<const std::string_view> names_of_values(CompressionOptions::Method) {
  return kCompressionNames;
}
inline std::span<const std::string_view> names_of_values(ContextMethod) {
  return kContextMethodNames;
}
template <class Enum>
std::string_view name_of_value(Enum value) {
  return names_of_values(value)[static_cast<std::size_t>(value)];
}

// "at least 1", "above 0 and below 1", ...
std::string range_words(const Range& range);

// One line of printable text, cut to about `limit` bytes.
std::string shown(std::string_view text, std::size_t limit = 60);

}  // namespace trireme
