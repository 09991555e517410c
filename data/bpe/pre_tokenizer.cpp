#include "data/bpe/pre_tokenizer.h"

#include "data/bpe/later_unicode.h"
#include "data/bpe/replacement.h"
#include "data/utf8.h"

namespace trireme::data {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

using Spec = PreTokenizerSpec;

void add_split(const JsonSection& section, Spec& spec) {
  section.only({"type", "pattern", "behavior", "invert"});
  const std::string behavior = section.text("behavior");
  const bool invert = section.flag("invert", false);
  Spec::Parts parts = Spec::Parts::kAll;
  if (behavior == "Removed" && invert) {
    parts = Spec::Parts::kMatches;
  } else if (behavior == "MergedWithPrevious" && !invert) {
    parts = Spec::Parts::kMatchesAtEnds;
  } else if (behavior != "Isolated") {
    section.wrong(say("a Split that is ", behavior, invert ? ", inverted," : "",
                      " is not implemented; Isolated, MergedWithPrevious and inverted Removed "
                      "are"));
  }
  spec.splits.push_back({section.pattern("pattern"), parts});
}

void set_metaspace(const JsonSection& section, Spec& spec) {
  using Prefix = Spec::Metaspace::Prefix;
  section.only({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  if (!spec.splits.empty()) section.wrong("Metaspace after another one is not implemented");
  Spec::Metaspace metaspace{.mark = section.text("replacement"),
                            .splits = section.flag("split", true)};
  if (metaspace.mark.empty() || character_size(metaspace.mark) != metaspace.mark.size()) {
    section.wrong("\"replacement\" is not one character");
  }
  const std::string scheme =
      section.find("prepend_scheme") == nullptr ? "always" : section.text("prepend_scheme");
  if (scheme == "always") {
    metaspace.prefix = Prefix::kAlways;
  } else if (scheme == "first") {
    metaspace.prefix = Prefix::kFirst;
  } else if (scheme == "never") {
    metaspace.prefix = Prefix::kNever;
  } else {
    section.wrong(say("\"prepend_scheme\" is \"", scheme, "\", not always, first or never"));
  }
  if (!section.flag("add_prefix_space", true) && metaspace.prefix != Prefix::kNever) {
    section.wrong(say("\"add_prefix_space\" is false, but \"prepend_scheme\" is ", scheme));
  }
  spec.metaspace = metaspace;
}

void collect(const JsonSection& section, Spec& spec) {
  const std::string type = section.text("type");
  if (spec.byte_level || spec.metaspace) {
    section.wrong(
        say(type, " after ", spec.byte_level ? "ByteLevel" : "Metaspace", " is not implemented"));
  }
  if (type == "Sequence") {
    section.only({"type", "pretokenizers"});
    for (const JsonSection& inner : section.sections("pretokenizers")) collect(inner, spec);
  } else if (type == "ByteLevel") {
    section.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    spec.prefix_space = section.flag("add_prefix_space", true);
    spec.splits_by_gpt2 = section.flag("use_regex", true);
    spec.byte_level = true;
  } else if (type == "Digits") {
    section.only({"type", "individual_digits"});
    const bool single = section.flag("individual_digits", false);
    spec.splits.push_back(
        {{single ? R"(\p{N})" : R"(\p{N}+)", Pattern::Kind::kRegex}, Spec::Parts::kAll});
  } else if (type == "Split") {
    add_split(section, spec);
  } else if (type == "Metaspace") {
    set_metaspace(section, spec);
  } else {
    section.wrong(say("the pre-tokenizer ", type,
                      " is not implemented; ByteLevel, Metaspace, Split and Digits are"));
  }
}

}  // namespace

PreTokenizerSpec parse_pre_tokenizer(const JsonSection& section) {
  Spec spec;
  collect(section, spec);
  return spec;
}

PreTokenizer::PreTokenizer(const PreTokenizerSpec& spec)
    : splits_before_prefix_(spec.splits.size()),
      prefix_space_(spec.prefix_space),
      metaspace_(spec.metaspace) {
  for (const Spec::Split& split : spec.splits) {
    splits_.push_back({Pattern(split.pattern.text, split.pattern.kind), split.parts});
  }
  if (spec.splits_by_gpt2) {
    splits_.push_back({Pattern(kGpt2Pattern, Pattern::Kind::kRegex), Spec::Parts::kAll});
  }
}

void PreTokenizer::split(MatchRoom& room, std::string_view part, bool is_first,
                         const Word& word) const {
  if (part.empty()) return;
  if (metaspace_) {
    const std::string marked =
        Replacement({" ", Pattern::Kind::kLiteral}, metaspace_->mark).apply(room, part);
    return split_at_marks(marked, is_first, word);
  }
  if (splits_.empty() || !needs_stand_ins(part)) return split_from(0, room, part, part, word);
  const std::string likeness = with_stand_ins(part);
  split_from(0, room, part, likeness, word);
}

void PreTokenizer::split_from(std::size_t stage, MatchRoom& room, std::string_view part,
                              std::string_view likeness, const Word& word) const {
  if (stage == splits_before_prefix_ && prefix_space_ && part.front() != ' ') {
    const std::string prefixed = ' ' + std::string(part);
    const std::string prefixed_likeness = ' ' + std::string(likeness);
    if (stage == splits_.size()) return word(prefixed);
    return split_from(stage, room, prefixed, prefixed_likeness, word);
  }
  if (stage == splits_.size()) return word(part);
  const Split& rule = splits_[stage];
  const bool last =
      stage + 1 == splits_.size() && (stage >= splits_before_prefix_ || !prefix_space_);
  const auto deeper = [&](std::size_t begin, std::size_t end) {
    if (begin == end) return;
    const std::string_view inner = part.substr(begin, end - begin);
    if (last) return word(inner);
    split_from(stage + 1, room, inner, likeness.substr(begin, end - begin), word);
  };
  std::size_t done = 0;  // end of the last match
  while (const auto match = rule.pattern.find(room, likeness, done)) {
    if (rule.parts == Spec::Parts::kMatchesAtEnds) {
      deeper(done, match->end);
    } else {
      if (rule.parts == Spec::Parts::kAll) deeper(done, match->begin);
      deeper(match->begin, match->end);
    }
    done = match->end;
  }
  if (rule.parts != Spec::Parts::kMatches) deeper(done, part.size());
}

void PreTokenizer::split_at_marks(std::string_view part, bool is_first, const Word& word) const {
  using Prefix = Spec::Metaspace::Prefix;
  const std::string& mark = metaspace_->mark;
  const bool may_prefix =
      metaspace_->prefix == Prefix::kAlways || (metaspace_->prefix == Prefix::kFirst && is_first);
  const bool prefixes = may_prefix && part.substr(0, mark.size()) != mark;
  const std::string prefixed = prefixes ? mark + std::string(part) : std::string();
  if (prefixes) part = prefixed;
  if (!metaspace_->splits) return word(part);
  while (!part.empty()) {
    const std::size_t end = std::min(part.find(mark, 1), part.size());
    word(part.substr(0, end));
    part.remove_prefix(end);
  }
}

}  // namespace trireme::data
