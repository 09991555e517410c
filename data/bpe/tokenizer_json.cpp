#include "data/bpe/tokenizer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "data/bpe/byte_alphabet.h"
#include "data/bpe/json_section.h"
#include "data/utf8.h"
#include "model/base/error.h"

namespace trireme::data {

namespace {

using nlohmann::json;
using Section = JsonSection;
using Ids = std::unordered_map<std::string_view, std::int32_t>;

class Parser {
 public:
  explicit Parser(const Section& whole) : whole_(whole) {}

  TokenizerJson run() {
    whole_.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                 "post_processor", "decoder", "model"});
    whole_.refuse("truncation");
    whole_.refuse("padding");
    if (whole_.find("normalizer") != nullptr) {
      spec_.normalizer = parse_normalizer(whole_.section("normalizer"));
    }
    if (whole_.find("pre_tokenizer") != nullptr) {
      spec_.pre_tokenizer = parse_pre_tokenizer(whole_.section("pre_tokenizer"));
    }
    prefix();
    if (whole_.find("post_processor") != nullptr) post_processor(whole_.section("post_processor"));
    decoder();
    model(whole_.section("model"));
    if (whole_.find("added_tokens") != nullptr) {
      for (const Section& token : whole_.sections("added_tokens")) add(token);
    }
    return std::move(spec_);
  }

 private:
  void prefix() const {
    const auto& metaspace = spec_.pre_tokenizer.metaspace;
    const bool first =
        metaspace && metaspace->prefix == PreTokenizerSpec::Metaspace::Prefix::kFirst;
    if (first && !spec_.normalizer.empty()) {
      whole_.wrong(
          "a Metaspace with \"prepend_scheme\": \"first\" after a normalizer is not implemented");
    }
  }

  // Special tokens around a text are the responsibility of the code that builds sequences.
  void post_processor(const Section& section) {
    const std::string type = section.text("type");
    if (type == "Sequence") {
      for (const Section& inner : section.sections("processors")) post_processor(inner);
    } else if (type == "TemplateProcessing") {
      for (const Section& part : section.sections("single")) {
        if (part.find("SpecialToken") == nullptr) continue;
        if (!spec_.surroundings.empty()) spec_.surroundings += ' ';
        spec_.surroundings += part.section("SpecialToken").text("id");
      }
    } else if (type != "ByteLevel") {
      section.wrong(say("the post-processor ", type,
                        " is not implemented; ByteLevel and TemplateProcessing are"));
    }
  }

  void decoder() {
    const Section section = whole_.section("decoder");
    spec_.decoder = parse_decoder(section);
    const bool byte_level = spec_.pre_tokenizer.byte_level;
    for (const DecoderStep& step : spec_.decoder) {
      if ((step.kind == DecoderStep::Kind::kByteLevel) == byte_level) continue;
      section.wrong(byte_level
                        ? "the pre_tokenizer is ByteLevel, but the decoder is not ByteLevel alone"
                        : "the decoder is ByteLevel, but the pre_tokenizer is not");
    }
  }

  void model(const Section& section) {
    section.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix",
                  "fuse_unk", "byte_fallback", "ignore_merges", "vocab", "merges"});
    if (section.find("type") != nullptr && section.text("type") != "BPE") {
      section.wrong(say("the model ", section.text("type"), " is not implemented; BPE is"));
    }
    const json* dropout = section.find("dropout");
    if (dropout != nullptr && *dropout != json(0)) section.wrong("\"dropout\" is not implemented");
    section.refuse_unless_empty("continuing_subword_prefix");
    section.refuse_unless_empty("end_of_word_suffix");
    spec_.ignore_merges = section.flag("ignore_merges", false);
    vocabulary(section.section("vocab"));
    spec_.symbols.by_byte = spec_.pre_tokenizer.byte_level;
    if (spec_.symbols.by_byte) {
      byte_symbols(section);
    } else {
      character_symbols(section);
    }
    merges(section);
  }

  std::int32_t id_of(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }

  void byte_symbols(const Section& section) {
    for (int byte = 0; byte < 256; ++byte) {
      const std::int32_t id = id_of(alphabet_character(static_cast<unsigned char>(byte)));
      spec_.symbols.bytes[byte] = id;
      // If every byte has an id, nothing is unknown.
      if (id >= 0) continue;
      if (section.find("unk_token") != nullptr || section.flag("byte_fallback", false)) {
        section.wrong(
            say("\"unk_token\" and \"byte_fallback\" are not implemented after ByteLevel, and the "
                "vocabulary has no token for the byte ",
                byte));
      }
    }
  }

  void character_symbols(const Section& section) {
    SymbolsSpec& symbols = spec_.symbols;
    symbols.bytes.fill(-1);
    symbols.fuses_unknown = section.flag("fuse_unk", false);
    if (section.flag("byte_fallback", false)) {
      for (int byte = 0; byte < 256; ++byte) {
        constexpr std::string_view kDigits = "0123456789ABCDEF";
        symbols.bytes[byte] = id_of(say("<0x", kDigits[byte / 16], kDigits[byte % 16], ">"));
      }
    }
    if (section.find("unk_token") != nullptr) {
      const std::string unknown = section.text("unk_token");
      symbols.unknown = id_of(unknown);
      if (symbols.unknown < 0) {
        section.wrong(say("the unk_token \"", unknown, "\" is not in the vocabulary"));
      }
    }
    for (const auto& [token, id] : ids_) {
      if (!token.empty() && character_size(token) == token.size()) {
        symbols.characters.emplace(std::string(token), id);
      }
    }
  }

  void set(const Section& section, std::int32_t id, std::string text) {
    if (id >= static_cast<std::int64_t>(spec_.texts.size())) {
      spec_.texts.resize(static_cast<std::size_t>(id) + 1);
    }
    if (spec_.texts[id]) section.wrong(say("two tokens have the id ", id));
    spec_.texts[id] = std::move(text);
  }

  void vocabulary(const Section& section) {
    ids_.reserve(section.object().size());
    for (const auto& [token, value] : section.object().items()) {
      const std::int32_t id = section.id(&value);
      const bool by_byte = spec_.pre_tokenizer.byte_level;
      const std::optional<std::string> text = by_byte ? bytes_of_token(token) : token;
      set(section, id, text.value_or(token));
      if (text) spec_.words.push_back(id);
      ids_.emplace(token, id);
    }
    if (ids_.empty()) section.wrong("is empty");
  }

  void merges(const Section& section) {
    const json& list = section.array("merges");
    spec_.merges.reserve(list.size());
    std::string joined;
    for (const json& merge : list) {
      const auto place = [&] { return say("merge ", spec_.merges.size() + 1); };
      std::string_view left, right;
      if (merge.is_string()) {
        const auto& both = merge.get_ref<const std::string&>();
        const std::size_t space = both.find(' ');
        if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos) {
          section.wrong(say(place(), ", \"", both, "\", does not name two tokens"));
        }
        left = std::string_view(both).substr(0, space);
        right = std::string_view(both).substr(space + 1);
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                 merge[1].is_string()) {
        left = merge[0].get_ref<const std::string&>();
        right = merge[1].get_ref<const std::string&>();
      } else {
        section.wrong(say(place(), " does not name two tokens"));
      }
      const auto known = [&](std::string_view token) {
        const std::int32_t id = id_of(token);
        if (id < 0) section.wrong(say(place(), ": \"", token, "\" is not in the vocabulary"));
        return id;
      };
      const auto rank = static_cast<std::uint32_t>(spec_.merges.size());
      joined.assign(left).append(right);
      spec_.merges.push_back({known(left), known(right), known(joined), rank});
    }
  }

  // The library gives a token that is not in the vocabulary the next free id, whatever the file
  // says.
  std::int32_t library_id(const std::string& content) const {
    const auto found = ids_.find(content);
    if (found != ids_.end()) return found->second;
    return std::max(static_cast<std::int32_t>(ids_.size()), next_added_);
  }

  void add(const Section& section) {
    section.only({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"});
    AddedToken token{.id = section.id(section.find("id")),
                     .content = section.text("content"),
                     .takes_left = section.flag("lstrip", false),
                     .takes_right = section.flag("rstrip", false),
                     .normalized = section.flag("normalized", true),
                     .special = section.flag("special", false)};
    if (token.content.empty()) section.wrong("a token is empty");
    const auto named = [&](const std::string& what) {
      section.wrong(say("the token \"", token.content, "\" ", what));
    };
    if (section.flag("single_word", false)) named("is a \"single_word\", which is not implemented");
    if (!added_.insert(token.content).second) named("comes twice");
    const std::int32_t expected = library_id(token.content);
    if (token.id != expected) {
      named(say("has the id ", token.id, ", but Hugging Face's library would use ", expected));
    }
    if (ids_.find(token.content) == ids_.end()) {
      set(section, token.id, token.content);
    } else if (spec_.texts[token.id] != token.content) {
      named("also stands for other bytes");
    }
    next_added_ = std::max(next_added_, token.id + 1);
    spec_.added.push_back(std::move(token));
  }

  const Section& whole_;
  TokenizerJson spec_;
  Ids ids_;  // of the vocabulary, with the JSON's own keys
  std::unordered_set<std::string> added_;
  std::int32_t next_added_ = 0;
};

}  // namespace

TokenizerJson parse_tokenizer_json(const std::string& path, std::string_view content) {
  const std::string place = say("tokenizer ", path);
  check_json_size(place, content);
  json whole;
  try {
    whole = json::parse(content);
  } catch (const json::parse_error& error) {
    throw DataError(say(place, ": is not valid JSON (byte ", error.byte, ")"));
  } catch (const json::out_of_range&) {
    throw DataError(say(place, ": has a number outside the range of double"));
  }
  return Parser(Section(whole, place)).run();
}

}  // namespace trireme::data
