#include "model/ops/choice_table.h"

#include <bit>

#include "model/base/error.h"
#include "model/base/json.h"

namespace trireme::ops {
namespace {

constexpr int kSignificantBits = 3;

std::int64_t rounded_up(std::int64_t extent) {
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(extent)));
  if (bits <= kSignificantBits) return extent;
  const std::int64_t unit = std::int64_t{1} << (bits - kSignificantBits);
  return (extent + unit - 1) / unit * unit;
}

}  // namespace

ChoiceTable ChoiceTable::parse(const std::string& json, Knows knows) {
  ChoiceTable table;
  table.chosen_ = read_json<decltype(chosen_), ConfigError>(json, "matrix product choices");
  for (const auto& [machine, shapes] : table.chosen_) {
    for (const auto& [shape, name] : shapes) {
      if (knows(machine, name)) continue;
      throw ConfigError(say("matrix product choices: '", shape, "' is given '", name, "', which '",
                            machine, "' does not have"));
    }
  }
  return table;
}

std::string ChoiceTable::json() const {
  return json_text(chosen_, 1) + "\n";
}

std::optional<std::string> ChoiceTable::find(const std::string& machine,
                                             const std::string& shape) const {
  const auto shapes = chosen_.find(machine);
  if (shapes == chosen_.end()) return std::nullopt;
  const auto found = shapes->second.find(shape);
  if (found == shapes->second.end()) return std::nullopt;
  return found->second;
}

void ChoiceTable::set(const std::string& machine, const std::string& shape,
                      const std::string& way) {
  chosen_[machine][shape] = way;
}

void ChoiceTable::merge(const ChoiceTable& other) {
  for (const auto& [machine, shapes] : other.chosen_) {
    chosen_[machine].insert(shapes.begin(), shapes.end());
  }
}

std::string extents_key(std::int64_t m, std::int64_t n, std::int64_t k) {
  return say(rounded_up(m), " ", rounded_up(n), " ", rounded_up(k));
}

}  // namespace trireme::ops
