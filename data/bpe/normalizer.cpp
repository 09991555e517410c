#include "data/bpe/normalizer.h"

#include "data/bpe/normal_form.h"

namespace trireme::data {
namespace {

void collect(const JsonSection& section, std::vector<NormalizerStep>& steps) {
  using Kind = NormalizerStep::Kind;
  const std::string type = section.text("type");
  if (type == "Sequence") {
    section.only({"type", "normalizers"});
    for (const JsonSection& inner : section.sections("normalizers")) collect(inner, steps);
  } else if (type == "NFC") {
    section.only({"type"});
    steps.push_back({.kind = Kind::kNfc});
  } else if (type == "Prepend") {
    section.only({"type", "prepend"});
    steps.push_back({.kind = Kind::kPrepend, .content = section.text("prepend")});
  } else if (type == "Replace") {
    section.only({"type", "pattern", "content"});
    steps.push_back({.kind = Kind::kReplace,
                     .pattern = section.pattern("pattern"),
                     .content = section.text("content")});
  } else {
    section.wrong(
        say("the normalizer ", type, " is not implemented; NFC, Prepend and Replace are"));
  }
}

}  // namespace

std::vector<NormalizerStep> parse_normalizer(const JsonSection& section) {
  std::vector<NormalizerStep> steps;
  collect(section, steps);
  return steps;
}

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) {
  for (const NormalizerStep& step : steps) {
    Step made{.kind = step.kind, .prefix = step.content, .replacement = std::nullopt};
    if (step.kind == NormalizerStep::Kind::kReplace) {
      made.replacement.emplace(step.pattern, step.content);
    }
    steps_.push_back(std::move(made));
  }
}

std::string_view Normalizer::apply(MatchRoom& room, std::string_view text, bool continues,
                                   std::string& buffer) const {
  std::string_view now = text;
  const auto keep = [&](std::string made) {
    buffer = std::move(made);
    now = buffer;
  };
  for (const Step& step : steps_) {
    switch (step.kind) {
      case NormalizerStep::Kind::kNfc:
        if (!is_surely_nfc(now)) keep(to_nfc(now));
        break;
      case NormalizerStep::Kind::kPrepend:
        if (!continues && !now.empty()) keep(step.prefix + std::string(now));
        break;
      case NormalizerStep::Kind::kReplace:
        keep(step.replacement->apply(room, now));
        break;
    }
  }
  return now;
}

}  // namespace trireme::data
