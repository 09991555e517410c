#include "trainer/telemetry/metrics_log.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/json.h"
#include "model/base/log.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

void put(Json& line, Json& not_finite, const std::string& key, double value) {
  require(!line.contains(key), "duplicate metric ", key);
  if (std::isfinite(value)) {
    line[key] = value;
    return;
  }
  line[key] = nullptr;
  not_finite[key] = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

// The step of a line; nothing if it is not a metrics line.
std::optional<std::int64_t> step_of(std::string_view line) {
  constexpr std::string_view kStart = R"({"step":)";
  if (is_whole(line, kStart)) {
    std::int64_t step = 0;
    const char* const end = line.data() + line.size();
    const auto read = std::from_chars(line.data() + kStart.size(), end, step);
    if (read.ec == std::errc() && read.ptr != end && *read.ptr == ',') return step;
  }
  return json_at<std::int64_t>(Json::parse(line, nullptr, false), "step");
}

LinesCut keep_to(const std::filesystem::path& path, std::int64_t last_step) {
  std::int64_t previous = 0;
  std::uint64_t foreign = 0;
  const LinesCut cut = take_over_lines(path, [&](std::string_view line) {
    const auto step = step_of(line);
    if (!step) ++foreign;
    if (!step || *step > last_step || *step <= previous) return false;
    previous = *step;
    return true;
  });
  if (foreign > 0) {
    log_warning("{}: removed {} lines that are not metrics", path.string(), foreign);
  }
  if (previous < last_step) {
    log_warning(
        "{} ends at step {}, but the run resumes after step {}: metrics of the steps between are "
        "missing",
        path.string(), previous, last_step);
  }
  return cut;
}

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

std::string metrics_line(const StepMetrics& metrics) {
  Json line = Json::object();
  Json not_finite = Json::object();
  const auto number = [&](const std::string& key, double value) {
    put(line, not_finite, key, value);
  };
  line["step"] = metrics.step;
  line["tokens"] = metrics.tokens;
  number("loss", metrics.loss);
  number("grad_norm", metrics.grad_norm);
  number("lr", metrics.lr);
  number("step_seconds", metrics.step_seconds);
  number("tokens_per_second", metrics.tokens_per_second);
  number("mfu", metrics.mfu);
  number("hfu", metrics.hfu);
  line["memory_peak_bytes"] = metrics.memory_peak_bytes;
  line["process_peak_bytes"] = metrics.process_peak_bytes;
  if (metrics.validation_loss) number("validation_loss", *metrics.validation_loss);
  if (metrics.validation_bits_per_byte) {
    number("validation_bits_per_byte", *metrics.validation_bits_per_byte);
  }
  for (const MeasuredSet& set : metrics.validation_sets) {
    number("validation_loss/" + set.name, set.loss);
    if (set.bits_per_byte) number("validation_bits_per_byte/" + set.name, *set.bits_per_byte);
  }
  for (const auto& [key, value] : metrics.more) number(key, value);
  if (const auto& load = metrics.expert_load) {
    line["expert_load_max_over_mean_by_layer"] = load->max_over_mean;
    if (!load->counts.empty()) {
      line["expert_load"] = {{"layers", load->layers}, {"counts", load->counts}};
    }
  }
  if (!not_finite.empty()) line["not_finite"] = std::move(not_finite);
  return line.dump();
}

MetricsLog::MetricsLog(const std::filesystem::path& path, std::int64_t last_step)
    : cut_(keep_to(path, last_step)), file_(path), last_step_(last_step) {}

void MetricsLog::append(const StepMetrics& metrics) {
  require(metrics.step > last_step_, "metrics of step ", metrics.step, " follow those of step ",
          last_step_);
  last_step_ = metrics.step;
  file_.append(metrics_line(metrics) + '\n');
}

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
