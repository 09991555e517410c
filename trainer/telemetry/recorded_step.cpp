#include "trainer/telemetry/recorded_step.h"

#include <string_view>
#include <system_error>

#include "model/base/file.h"
#include "model/base/json.h"

namespace trireme {
namespace {

std::optional<RecordedStep> read(const nlohmann::json& line) {
  const auto loss = json_at<double>(line, "loss");
  const auto grad_norm = json_at<double>(line, "grad_norm");
  if (!loss || !grad_norm) return std::nullopt;
  return RecordedStep{
      .loss = *loss,
      .grad_norm = *grad_norm,
      .skips = static_cast<std::int64_t>(json_at<double>(line, "skips").value_or(0)),
      .rollbacks = static_cast<std::int64_t>(json_at<double>(line, "rollbacks").value_or(0))};
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
    const auto line = nlohmann::json::parse(text.substr(begin), nullptr, false);
    text = text.substr(0, begin);
    const auto at = json_at<std::int64_t>(line, "step");
    if (at == step) return read(line);
    if (at && *at < step) break;
  }
  return std::nullopt;
}

}  // namespace trireme
