#include "trainer/telemetry/recorded_step.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "model/base/file.h"

namespace trireme {
namespace {

using nlohmann::json;

std::optional<double> number(const json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

std::optional<RecordedStep> read(const json& line) {
  const auto loss = number(line, "loss");
  const auto grad_norm = number(line, "grad_norm");
  if (!loss || !grad_norm) return std::nullopt;
  return RecordedStep{
      .loss = *loss,
      .grad_norm = *grad_norm,
      .skips = static_cast<std::int64_t>(number(line, "skips").value_or(0)),
      .rollbacks = static_cast<std::int64_t>(number(line, "rollbacks").value_or(0))};
}

}  // namespace

std::optional<RecordedStep> recorded_step(const std::filesystem::path& metrics, std::int64_t step) {
  std::error_code why;
  if (!std::filesystem::exists(metrics, why)) return std::nullopt;
  const MappedFile file(metrics);
  std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  text = text.substr(0, text.rfind('\n') + 1);  // without an incomplete last line
  while (!text.empty()) {
    text.remove_suffix(1);
    const std::size_t begin = text.rfind('\n') + 1;  // npos + 1 is 0
    const json line = json::parse(text.substr(begin), nullptr, false);
    text = text.substr(0, begin);
    if (!line.is_object()) continue;
    const auto found = line.find("step");
    if (found == line.end() || !found->is_number_integer()) continue;
    const auto at = found->get<std::int64_t>();
    if (at == step) return read(line);
    if (at < step) break;
  }
  return std::nullopt;
}

}  // namespace trireme
