#include "model/ops/cpu/gemm_choices.h"

#include <bit>
#include <nlohmann/json.hpp>

#include "model/base/error.h"

namespace trireme::ops::cpu {
namespace {

constexpr int kSignificantBits = 3;

std::int64_t rounded_up(std::int64_t extent) {
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(extent)));
  if (bits <= kSignificantBits) return extent;
  const std::int64_t unit = std::int64_t{1} << (bits - kSignificantBits);
  return (extent + unit - 1) / unit * unit;
}

}  // namespace

const char* name_of(GemmLibrary library) {
  switch (library) {
    case GemmLibrary::kOpenBlas:
      return "openblas";
    case GemmLibrary::kOneDnn:
      return "onednn";
    case GemmLibrary::kOwn:
      return "trireme";
  }
  throw Error("not a matrix product library");
}

std::optional<GemmLibrary> library_named(std::string_view name) {
  for (const GemmLibrary library : kGemmLibraries)
    if (name == name_of(library)) return library;
  return std::nullopt;
}

GemmChoices GemmChoices::parse(const std::string& json) {
  GemmChoices choices;
  try {
    const nlohmann::json document = nlohmann::json::parse(json);
    for (const auto& [machine, shapes] : document.items()) {
      for (const auto& [shape, library] : shapes.items()) {
        const std::string& name = library.get_ref<const std::string&>();
        const std::optional<GemmLibrary> known = library_named(name);
        if (!known) {
          throw ConfigError(say("matrix product choices: '", shape, "' names the library '", name,
                                "', which is not known"));
        }
        choices.set(machine, shape, *known);
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError(say("matrix product choices: ", error.what()));
  }
  return choices;
}

std::string GemmChoices::json() const {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [machine, shapes] : chosen_)
    for (const auto& [shape, library] : shapes) out[machine][shape] = name_of(library);
  return out.dump(1) + "\n";
}

std::optional<GemmLibrary> GemmChoices::find(const std::string& machine,
                                             const std::string& shape) const {
  const auto shapes = chosen_.find(machine);
  if (shapes == chosen_.end()) return std::nullopt;
  const auto found = shapes->second.find(shape);
  if (found == shapes->second.end()) return std::nullopt;
  return found->second;
}

void GemmChoices::set(const std::string& machine, const std::string& shape, GemmLibrary library) {
  chosen_[machine][shape] = library;
}

void GemmChoices::merge(const GemmChoices& other) {
  for (const auto& [machine, shapes] : other.chosen_) {
    chosen_[machine].insert(shapes.begin(), shapes.end());
  }
}

std::string choice_key(const MatMulShape& s) {
  std::string key = say(trireme::name_of(s.in), s.out == s.in ? "" : ">",
                        s.out == s.in ? "" : trireme::name_of(s.out), " ",
                        s.transpose_a ? "t" : "n", s.transpose_b ? "t" : "n", " ");
  key += say(rounded_up(s.m), " ", rounded_up(s.n), " ", rounded_up(s.k));
  if (s.into == Into::kAdd) key += " add";
  if (s.bias) key += " bias";
  return key;
}

}  // namespace trireme::ops::cpu
