#include "model/ops/cuda/algorithm_table.h"

#include <fmt/format.h>

#include <bit>
#include <nlohmann/json.hpp>
#include <string_view>

#include "model/base/error.h"

namespace trireme::ops::cuda {
namespace {

constexpr std::string_view kPrefix = "cublaslt:";
constexpr std::size_t kDigits = 16;  // of a word
constexpr int kSignificantBits = 3;

std::string text_of(const Algorithm& algorithm) {
  std::string text(kPrefix);
  for (const std::uint64_t word : algorithm) text += fmt::format("{:016x}", word);
  return text;
}

Algorithm algorithm_of(const std::string& shape, const std::string& text) {
  Algorithm algorithm{};
  if (!text.starts_with(kPrefix) || text.size() != kPrefix.size() + algorithm.size() * kDigits ||
      text.find_first_not_of("0123456789abcdef", kPrefix.size()) != std::string::npos) {
    throw ConfigError(say("matrix product choices: '", shape, "' names '", text,
                          "', which is no algorithm of cuBLASLt's"));
  }
  for (std::size_t i = 0; i < algorithm.size(); ++i) {
    algorithm[i] = std::stoull(text.substr(kPrefix.size() + i * kDigits, kDigits), nullptr, 16);
  }
  return algorithm;
}

std::int64_t rounded_up(std::int64_t extent) {
  const int bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(extent)));
  if (bits <= kSignificantBits) return extent;
  const std::int64_t unit = std::int64_t{1} << (bits - kSignificantBits);
  return (extent + unit - 1) / unit * unit;
}

}  // namespace

AlgorithmTable AlgorithmTable::parse(const std::string& json) {
  AlgorithmTable table;
  try {
    const nlohmann::json document = nlohmann::json::parse(json);
    for (const auto& [machine, shapes] : document.items()) {
      for (const auto& [shape, way] : shapes.items()) {
        table.set(machine, shape, algorithm_of(shape, way.get_ref<const std::string&>()));
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw ConfigError(say("matrix product choices: ", error.what()));
  }
  return table;
}

std::string AlgorithmTable::json() const {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [machine, shapes] : chosen_) {
    for (const auto& [shape, algorithm] : shapes) out[machine][shape] = text_of(algorithm);
  }
  return out.dump(1) + "\n";
}

std::optional<Algorithm> AlgorithmTable::find(const std::string& machine,
                                              const std::string& shape) const {
  const auto shapes = chosen_.find(machine);
  if (shapes == chosen_.end()) return std::nullopt;
  const auto found = shapes->second.find(shape);
  if (found == shapes->second.end()) return std::nullopt;
  return found->second;
}

void AlgorithmTable::set(const std::string& machine, const std::string& shape,
                         const Algorithm& algorithm) {
  chosen_[machine][shape] = algorithm;
}

void AlgorithmTable::merge(const AlgorithmTable& other) {
  for (const auto& [machine, shapes] : other.chosen_) {
    chosen_[machine].insert(shapes.begin(), shapes.end());
  }
}

AlgorithmTable ProcessAlgorithms::copy() const {
  const std::lock_guard guard(mutex_);
  return table_;
}
void ProcessAlgorithms::use(const AlgorithmTable& table) {
  const std::lock_guard guard(mutex_);
  AlgorithmTable merged = table;
  merged.merge(table_);
  table_ = std::move(merged);
  ++generation_;
}
std::optional<Algorithm> ProcessAlgorithms::find(const std::string& machine,
                                                 const std::string& shape) const {
  const std::lock_guard guard(mutex_);
  return table_.find(machine, shape);
}
void ProcessAlgorithms::set(const std::string& machine, const std::string& shape,
                            const Algorithm& algorithm) {
  const std::lock_guard guard(mutex_);
  table_.set(machine, shape, algorithm);
}
int ProcessAlgorithms::generation() const {
  const std::lock_guard guard(mutex_);
  return generation_;
}

ProcessAlgorithms& process_algorithms() {
  static ProcessAlgorithms algorithms;
  return algorithms;
}

std::string extents_key(std::int64_t m, std::int64_t n, std::int64_t k) {
  return say(rounded_up(m), " ", rounded_up(n), " ", rounded_up(k));
}

}  // namespace trireme::ops::cuda
