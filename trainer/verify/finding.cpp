#include "trainer/verify/finding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace trireme::verify {
namespace {

constexpr std::size_t kListed = 12;  // of the tensors that differ too

std::string line(const char* name, const std::string& text) {
  return fmt::format("  {:9} {}\n", name, text);
}

std::string tensor_text(const Difference& d) {
  const std::string shape = say(d.shape);
  return fmt::format("{} {}, element [{}], on rank {}; {} of {} elements of all copies", d.tensor,
                     shape, fmt::join(d.at, ", "), d.rank, d.wrong, d.elements);
}

std::string difference_text(const Difference& d) {
  std::string text = d.step == 0 ? fmt::format("DIFFERS before the first step: the {}", d.what)
                                 : fmt::format("DIFFERS in step {}: the {}", d.step, d.what);
  if (!d.tensor.empty()) text += " of " + d.tensor;
  text += "\n";
  if (!d.tensor.empty()) text += line("where", tensor_text(d));
  text +=
      line("values", fmt::format("{:.9g} where {:.9g} is right", d.pair.value, d.pair.expected));
  text += line("by", fmt::format("{:.3g} of {}; allowed is {:.3g}", d.share,
                                 d.tensor.empty() ? "it" : "the largest of its weight", d.allowed));
  if (!d.origin.empty() && d.origin != d.tensor) {
    text += line("origin", fmt::format("{} comes first in the backward", d.origin));
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
  const auto pair = [](const char* name, const Pair& p) {
    return fmt::format("{} {:.8g} ({:.1e})", name, p.value, p.relative());
  };
  const auto largest = [](const char* name, const StepFinding::Largest& l) {
    if (l.tensor.empty()) return fmt::format("{} the same bits", name);
    return fmt::format("{} {:.1e} in {}", name, l.share, l.tensor);
  };
  if (step.step == 0) return fmt::format("first weights: {}\n", largest("off", step.weight));
  return fmt::format("step {}: {}, {}; gradients: {}; weights: {}\n", step.step,
                     pair("loss", step.loss), pair("grad_norm", step.grad_norm),
                     largest("off", step.gradient), largest("off", step.weight));
}

}  // namespace

std::string text_of(const Finding& finding) {
  std::string text;
  for (const StepFinding& step : finding.steps) {
    if (finding.difference && step.step == finding.difference->step) break;
    text += step_text(step);
  }
  if (finding.difference) return text + difference_text(*finding.difference);
  const Tolerances& t = finding.tolerances;
  return text + fmt::format(
                    "equal: {} parameters of {} elements, {}\n", finding.parameters,
                    finding.elements,
                    t.exact ? std::string("to the bit")
                            : fmt::format("losses within {:.0e}, norms {:.0e}, gradients {:.0e} of "
                                          "their weight's largest in the first step, more later",
                                          t.loss, t.grad_norm, t.gradient));
}

std::string json_of(const Finding& finding) {
  using Json = nlohmann::ordered_json;
  const auto pair = [](const Pair& p) {
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
              {"grad_norm", t.grad_norm},
              {"gradient", t.gradient}}},
            {"steps", Json::array()}};
  for (const StepFinding& step : finding.steps) {
    json["steps"].push_back({{"step", step.step},
                             {"loss", pair(step.loss)},
                             {"grad_norm", pair(step.grad_norm)},
                             {"gradients", largest(step.gradient)},
                             {"weights", largest(step.weight)}});
  }
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
