#include "model/ops/cuda/algorithm.h"

#include <fmt/format.h>

#include <string_view>

namespace trireme::ops::cuda {
namespace {

constexpr std::string_view kPrefix = "cublaslt:";
constexpr std::size_t kDigits = 16;  // per word

}  // namespace

std::string text_of(const Algorithm& algorithm) {
  std::string text(kPrefix);
  for (const std::uint64_t word : algorithm) text += fmt::format("{:016x}", word);
  return text;
}

std::optional<Algorithm> algorithm_named(const std::string& text) {
  Algorithm algorithm{};
  if (!text.starts_with(kPrefix) || text.size() != kPrefix.size() + algorithm.size() * kDigits ||
      text.find_first_not_of("0123456789abcdef", kPrefix.size()) != std::string::npos) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < algorithm.size(); ++i) {
    algorithm[i] = std::stoull(text.substr(kPrefix.size() + i * kDigits, kDigits), nullptr, 16);
  }
  return algorithm;
}

bool is_algorithm(const std::string&, const std::string& way) {
  return algorithm_named(way).has_value();
}

ChoiceTable ProcessChoices::copy() const {
  const std::lock_guard guard(mutex_);
  return table_;
}
void ProcessChoices::use(const ChoiceTable& table) {
  const std::lock_guard guard(mutex_);
  ChoiceTable merged = table;
  merged.merge(table_);
  table_ = std::move(merged);
  ++generation_;
}
std::optional<std::string> ProcessChoices::find(const std::string& machine,
                                                const std::string& shape) const {
  const std::lock_guard guard(mutex_);
  return table_.find(machine, shape);
}
void ProcessChoices::set(const std::string& machine, const std::string& shape,
                         const std::string& way) {
  const std::lock_guard guard(mutex_);
  table_.set(machine, shape, way);
}
int ProcessChoices::generation() const {
  const std::lock_guard guard(mutex_);
  return generation_;
}

ProcessChoices& process_choices() {
  static ProcessChoices choices;
  return choices;
}

}  // namespace trireme::ops::cuda
