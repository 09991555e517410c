#include "trainer/tools/verify/finding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace trireme::verify {
namespace {

constexpr std::size_t kListed = 12;  // number of tensors listed

std::string line(const char* name, const std::string& text) {
  return fmt::format("  {:9} {}\n", name, text);
}

std::string tensor_text(const Difference& d) {
  const std::string shape = say(d.shape);
  if (d.at.empty()) return fmt::format("{} {}, ratio of the whole tensor", d.tensor, shape);
  return fmt::format("{} {}, element [{}] on rank {}; {} of {} elements over all copies differ",
                     d.tensor, shape, fmt::join(d.at, ", "), d.rank, d.wrong, d.elements);
}

std::string difference_text(const Difference& d) {
  std::string text = d.step == 0 ? fmt::format("DIFFERS before the first step: the {}", d.what)
                                 : fmt::format("DIFFERS in step {}: the {}", d.step, d.what);
  if (!d.tensor.empty()) text += " of " + d.tensor;
  text += "\n";
  if (!d.tensor.empty()) text += line("where", tensor_text(d));
  text += line("values", fmt::format("{:.9g}, expected {:.9g}", d.pair.value, d.pair.expected));
  text += line("by",
               fmt::format("{:.3g} of {}; the tolerance is {:.3g}", d.share,
                           d.at.empty() ? "the expected value" : "the largest value of the weight",
                           d.allowed));
  if (!d.origin.empty() && d.origin != d.tensor) {
    text += line("origin", fmt::format("{} is the first in backward order", d.origin));
  }
  if (!d.also.empty()) {
    const std::size_t shown = std::min(d.also.size(), kListed);
    const std::vector<std::string> names(d.also.begin(),
                                         d.also.begin() + static_cast<std::ptrdiff_t>(shown));
    const std::size_t more = d.also.size() - shown;
    text += line("also", fmt::format("{}{}", fmt::join(names, ", "),
                                     more > 0 ? fmt::format(" and {} more", more) : ""));
  }
  return text + line("cause", d.cause.text);
}

std::string step_text(const StepFinding& step) {
  const auto pair = [](const char* name, const ValuePair& p) {
    return fmt::format("{} {:.8g} ({:.1e})", name, p.value, p.relative());
  };
  const auto largest = [](const char* name, const StepFinding::Largest& l) {
    if (l.tensor.empty()) return fmt::format("{} bit-identical", name);
    return fmt::format("{} {:.1e} in {}", name, l.share, l.tensor);
  };
  if (step.step == 0)
    return fmt::format("initial weights: {}\n", largest("difference", step.weight));
  return fmt::format("step {}: {}, {}; gradients: {}; weights: {}\n", step.step,
                     pair("loss", step.loss), pair("grad_norm", step.grad_norm),
                     largest("difference", step.gradient), largest("difference", step.weight));
}

}  // namespace

StepFinding::Largest StepFinding::of(const std::vector<TensorResult>& results,
                                     const Tensors& tensors, bool of_scale) {
  StepFinding::Largest largest;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const TensorResult& result = results[i];
    const double share =
        of_scale ? result.difference / std::max(result.scale, 1e-300) : result.difference;
    if (result.difference == 0 || share <= largest.share) continue;
    largest = {share, tensors[i].name};
  }
  return largest;
}

std::string text_of(const Finding& finding) {
  std::string text;
  for (const StepFinding& step : finding.steps) {
    if (finding.difference && step.step == finding.difference->step) break;
    text += step_text(step);
  }
  if (finding.difference) return text + difference_text(*finding.difference);
  const Tolerances& t = finding.tolerances;
  text += fmt::format(
      "equal: {} parameters of {} elements, {}\n", finding.parameters, finding.elements,
      t.exact ? std::string("bit-identical")
              : fmt::format(
                    "tolerances: loss {:.0e}, gradients {:.0e} of the weight's largest, gradient "
                    "ratio {:.0e}, optimizer {:.0e}",
                    t.loss, t.gradient, t.ratio, t.update));
  for (const std::string& one : finding.not_proven) text += fmt::format("not proven: {}\n", one);
  return text;
}

std::string json_of(const Finding& finding) {
  using Json = nlohmann::ordered_json;
  const auto pair = [](const ValuePair& p) {
    return Json{{"value", p.value}, {"expected", p.expected}, {"relative", p.relative()}};
  };
  const auto largest = [](const StepFinding::Largest& l) {
    return Json{{"off", l.share}, {"tensor", l.tensor}};
  };
  const Tolerances& t = finding.tolerances;
  Json json{{"equal", !finding.difference},
            {"parameters", finding.parameters},
            {"elements", finding.elements},
            {"tolerances",
             {{"exact", t.exact},
              {"loss", t.loss},
              {"grad_norm", t.update},
              {"gradient", t.gradient},
              {"ratio", t.ratio},
              {"update", t.update}}},
            {"steps", Json::array()}};
  for (const StepFinding& step : finding.steps) {
    json["steps"].push_back({{"step", step.step},
                             {"loss", pair(step.loss)},
                             {"grad_norm", pair(step.grad_norm)},
                             {"gradients", largest(step.gradient)},
                             {"ratio", largest(step.ratio)},
                             {"weights", largest(step.weight)}});
  }
  if (!finding.difference) json["not_proven"] = finding.not_proven;
  if (finding.difference) {
    const Difference& d = *finding.difference;
    json["difference"] = {{"step", d.step},
                          {"what", d.what},
                          {"tensor", d.tensor},
                          {"origin", d.origin},
                          {"at", d.at},
                          {"rank", d.rank},
                          {"value", d.pair.value},
                          {"expected", d.pair.expected},
                          {"share", d.share},
                          {"allowed", d.allowed},
                          {"wrong", d.wrong},
                          {"elements", d.elements},
                          {"also", d.also},
                          {"cause", {{"kind", d.cause.kind}, {"text", d.cause.text}}}};
  }
  return json.dump(2) + "\n";
}

}  // namespace trireme::verify
