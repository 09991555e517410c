#include "data/bpe/tokenizer_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "data/bpe/byte_alphabet.h"
#include "data/bpe/json_section.h"
#include "model/base/error.h"

namespace trireme::data {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

namespace {

using nlohmann::json;
using Section = JsonSection;
using Ids = std::unordered_map<std::string, std::int32_t>;

class Parser {
 public:
  explicit Parser(const Section& whole) : whole_(whole) {}

  TokenizerJson run() {
    whole_.only({"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
                 "post_processor", "decoder", "model"});
    whole_.refuse("truncation");
    whole_.refuse("padding");
    if (whole_.find("normalizer") != nullptr) normalizer(whole_.section("normalizer"));
    pre_tokenizer(whole_.section("pre_tokenizer"));
    if (!byte_level_)
      whole_.wrong("the pre_tokenizer is not ByteLevel, which alone is implemented");
    if (whole_.find("post_processor") != nullptr) post_processor(whole_.section("post_processor"));
    decoder(whole_.section("decoder"));
    model(whole_.section("model"));
    if (whole_.find("added_tokens") != nullptr) {
      for (const Section& token : whole_.sections("added_tokens")) add(token);
    }
    return std::move(spec_);
  }

 private:
  void normalizer(const Section& section) {
    const std::string type = section.text("type");
    if (type == "Sequence") {
      section.only({"type", "normalizers"});
      for (const Section& inner : section.sections("normalizers")) normalizer(inner);
    } else if (type == "NFC") {
      section.only({"type"});
      spec_.nfc = true;
    } else {
      section.wrong(say("the normalizer ", type, " is not implemented; NFC is"));
    }
  }

  void pre_tokenizer(const Section& section) {
    const std::string type = section.text("type");
    if (byte_level_) section.wrong(say(type, " after ByteLevel is not implemented"));
    if (type == "Sequence") {
      section.only({"type", "pretokenizers"});
      for (const Section& inner : section.sections("pretokenizers")) pre_tokenizer(inner);
    } else if (type == "ByteLevel") {
      section.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
      spec_.prefix_space = section.flag("add_prefix_space", true);
      spec_.splits_by_gpt2 = section.flag("use_regex", true);
      byte_level_ = true;
    } else if (type == "Digits") {
      section.only({"type", "individual_digits"});
      const bool single = section.flag("individual_digits", false);
      spec_.splits.push_back({single ? R"(\p{N})" : R"(\p{N}+)", Pattern::Kind::kRegex, true});
    } else if (type == "Split") {
      split(section);
    } else {
      section.wrong(
          say("the pre-tokenizer ", type, " is not implemented; ByteLevel, Split and Digits are"));
    }
  }

  void split(const Section& section) {
    section.only({"type", "pattern", "behavior", "invert"});
    const std::string behavior = section.text("behavior");
    const bool invert = section.flag("invert", false);
    const bool removes_gaps = behavior == "Removed" && invert;
    if (behavior != "Isolated" && !removes_gaps) {
      section.wrong(say("a Split that is ", behavior, invert ? ", inverted," : "",
                        " is not implemented; Isolated and inverted Removed are"));
    }
    const Section pattern = section.section("pattern");
    pattern.only({"Regex", "String"});
    const bool regex = pattern.find("Regex") != nullptr;
    spec_.splits.push_back({pattern.text(regex ? "Regex" : "String"),
                            regex ? Pattern::Kind::kRegex : Pattern::Kind::kLiteral,
                            !removes_gaps});
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

  static void decoder(const Section& section) {
    const std::string type = section.text("type");
    if (type == "Sequence") {
      for (const Section& inner : section.sections("decoders")) decoder(inner);
    } else if (type != "ByteLevel") {
      section.wrong(say("the decoder ", type, " is not implemented; ByteLevel is"));
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
    for (int byte = 0; byte < 256; ++byte) {
      const auto found = ids_.find(alphabet_character(static_cast<unsigned char>(byte)));
      spec_.bytes[byte] = found == ids_.end() ? -1 : found->second;
      // If every byte has an id, nothing is unknown.
      if (found != ids_.end()) continue;
      if (section.find("unk_token") != nullptr || section.flag("byte_fallback", false)) {
        section.wrong(
            say("\"unk_token\" and \"byte_fallback\" are not implemented, and the "
                "vocabulary has no token for the byte ",
                byte));
      }
    }
    merges(section);
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
      const std::optional<std::string> bytes = bytes_of_token(token);
      set(section, id, bytes.value_or(token));
      if (bytes) spec_.words.push_back(id);
      ids_.emplace(token, id);
    }
    if (ids_.empty()) section.wrong("is empty");
  }

  void merges(const Section& section) {
    const json& list = section.array("merges");
    spec_.merges.reserve(list.size());
    for (const json& merge : list) {
      const std::string place = say("merge ", spec_.merges.size() + 1);
      std::string left, right;
      if (merge.is_string()) {
        const auto& both = merge.get_ref<const std::string&>();
        const std::size_t space = both.find(' ');
        if (space == std::string::npos || both.find(' ', space + 1) != std::string::npos) {
          section.wrong(say(place, ", \"", both, "\", does not name two tokens"));
        }
        left = both.substr(0, space);
        right = both.substr(space + 1);
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
                 merge[1].is_string()) {
        left = merge[0].get<std::string>();
        right = merge[1].get<std::string>();
      } else {
        section.wrong(say(place, " does not name two tokens"));
      }
      const auto id_of = [&](const std::string& token) {
        const auto found = ids_.find(token);
        if (found == ids_.end()) {
          section.wrong(say(place, ": \"", token, "\" is not in the vocabulary"));
        }
        return found->second;
      };
      spec_.merges.push_back({id_of(left), id_of(right), id_of(left + right)});
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
  Ids ids_;  // of the vocabulary
  std::unordered_set<std::string> added_;
  std::int32_t next_added_ = 0;
  bool byte_level_ = false;
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
