#include "data/bpe/decoder.h"

#include <utility>

#include "data/bpe/symbols.h"
#include "data/utf8.h"
#include "model/base/error.h"

namespace trireme::data {
namespace {

using DecoderKind = DecoderStep::Kind;
using Tokens = std::vector<std::string>;

std::string character(const JsonSection& section, const char* key) {
  std::string text = section.text(key);
  if (text.empty() || character_size(text) != text.size()) {
    section.wrong(say("\"", key, "\" is not one character"));
  }
  return text;
}

DecoderStep strip_of(const JsonSection& section) {
  section.only({"type", "content", "start", "stop"});
  const auto count = [&](const char* key) {
    const auto* value = section.find(key);
    return value == nullptr ? 0 : section.id(value);
  };
  if (count("stop") != 0) section.wrong("a Strip at the end (\"stop\") is not implemented");
  return {.kind = DecoderKind::kStrip,
          .content = character(section, "content"),
          .most = static_cast<std::size_t>(count("start"))};
}

void collect(const JsonSection& section, std::vector<DecoderStep>& steps) {
  const std::string type = section.text("type");
  if (type == "Sequence") {
    section.only({"type", "decoders"});
    for (const JsonSection& inner : section.sections("decoders")) collect(inner, steps);
  } else if (type == "ByteLevel") {
    steps.push_back({.kind = DecoderKind::kByteLevel});
  } else if (type == "Replace") {
    section.only({"type", "pattern", "content"});
    steps.push_back({.kind = DecoderKind::kReplace,
                     .pattern = section.pattern("pattern"),
                     .content = section.text("content")});
  } else if (type == "ByteFallback") {
    section.only({"type"});
    steps.push_back({.kind = DecoderKind::kByteFallback});
  } else if (type == "Fuse") {
    section.only({"type"});
    steps.push_back({.kind = DecoderKind::kFuse});
  } else if (type == "Strip") {
    steps.push_back(strip_of(section));
  } else if (type == "Metaspace") {
    section.only({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
    const bool never =
        section.find("prepend_scheme") != nullptr && section.text("prepend_scheme") == "never";
    steps.push_back({.kind = DecoderKind::kMetaspace,
                     .content = character(section, "replacement"),
                     .is_prefix = !never && section.flag("add_prefix_space", true)});
  } else {
    section.wrong(say("the decoder ", type,
                      " is not implemented; ByteLevel, Replace, ByteFallback, Fuse, Strip and "
                      "Metaspace are"));
  }
}

// Replaces consecutive "<0xNN>" by the bytes: a token of them all if they are UTF-8, otherwise
// U+FFFD for each.
Tokens without_fallback(Tokens tokens) {
  Tokens made;
  std::string bytes;
  const auto flush = [&] {
    std::size_t valid = 0;
    while (const std::size_t size = character_size(std::string_view(bytes).substr(valid))) {
      valid += size;
    }
    if (valid == bytes.size()) {
      if (!bytes.empty()) made.push_back(bytes);
    } else {
      made.insert(made.end(), bytes.size(), "\uFFFD");
    }
    bytes.clear();
  };
  for (std::string& token : tokens) {
    if (const int byte = byte_of_token(token); byte >= 0) {
      bytes += static_cast<char>(byte);
      continue;
    }
    flush();
    made.push_back(std::move(token));
  }
  flush();
  return made;
}

void strip(std::string& token, const DecoderStep& step) {
  std::size_t size = 0;
  for (std::size_t i = 0; i < step.most; ++i) {
    if (token.compare(size, step.content.size(), step.content) != 0) break;
    size += step.content.size();
  }
  token.erase(0, size);
}

}  // namespace

std::vector<DecoderStep> parse_decoder(const JsonSection& section) {
  std::vector<DecoderStep> steps;
  collect(section, steps);
  return steps;
}

Decoder::Decoder(const std::vector<DecoderStep>& steps) {
  for (const DecoderStep& step : steps) {
    Step made{step, std::nullopt};
    if (step.kind == DecoderKind::kReplace) made.replacement.emplace(step.pattern, step.content);
    if (step.kind == DecoderKind::kMetaspace) {
      made.replacement.emplace(PatternSpec{step.content, Pattern::Kind::kLiteral}, " ");
    }
    steps_.push_back(std::move(made));
  }
}

std::string Decoder::decode(std::vector<std::string> tokens) const {
  MatchRoom room;
  const auto fused = [&tokens] {
    std::string text;
    for (const std::string& token : tokens) text += token;
    return text;
  };
  for (const Step& step : steps_) {
    switch (step.spec.kind) {
      case DecoderKind::kByteLevel:
        break;  // byte-level vocabularies spell their bytes
      case DecoderKind::kReplace:
        for (std::string& token : tokens) token = step.replacement->apply(room, token);
        break;
      case DecoderKind::kByteFallback:
        tokens = without_fallback(std::move(tokens));
        break;
      case DecoderKind::kFuse:
        tokens = {fused()};
        break;
      case DecoderKind::kStrip:
        for (std::string& token : tokens) strip(token, step.spec);
        break;
      case DecoderKind::kMetaspace:
        for (std::size_t i = 0; i < tokens.size(); ++i) {
          const bool drops = i == 0 && step.spec.is_prefix;
          const PatternSpec mark{step.spec.content, Pattern::Kind::kLiteral};
          tokens[i] = drops ? Replacement(mark, "").apply(room, tokens[i])
                            : step.replacement->apply(room, tokens[i]);
        }
        break;
    }
  }
  return fused();
}

}  // namespace trireme::data
