#include "data/bpe/bpe_tokenizer.h"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "data/bpe/bpe_encoder.h"
#include "data/bpe/json_section.h"
#include "data/bpe/tiktoken.h"
#include "data/bpe/tokenizer_json.h"
#include "data/utf8.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/hex.h"
#include "model/base/json.h"

namespace trireme::data {
namespace {

struct DeclaredEnd {
  std::string content{};
  std::optional<std::int32_t> id{};  // from added_tokens_decoder, if it is there
  std::string place{};               // the file that declares it
};

using nlohmann::json;

constexpr std::uint64_t kLongestConfig = 16u << 20;

// An empty object if the file does not exist.
json object_of(const std::filesystem::path& file) {
  std::error_code why;
  if (!std::filesystem::exists(file, why)) return json::object();
  try {
    const std::string text = read_text(file, kLongestConfig);
    check_json_size(file.string(), text);
    json whole = json::parse(text);
    return whole.is_object() ? whole : json::object();
  } catch (const json::exception&) {
    throw DataError(say(file.string(), ": is not valid JSON"));
  } catch (const EnvironmentError& error) {
    throw DataError(error.what());
  }
}

// A token is a string, or an object with its content.
std::string content_of(const json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) return "";
  if (found->is_object()) return content_of(*found, "content");
  return json_as<std::string>(*found).value_or("");
}

std::optional<std::int32_t> id_of(const json& config, const std::string& content) {
  const auto tokens = config.find("added_tokens_decoder");
  if (tokens == config.end() || !tokens->is_object()) return std::nullopt;
  for (const auto& [key, token] : tokens->items()) {
    if (!token.is_object() || content_of(token, "content") != content) continue;
    std::int32_t id = -1;
    const auto [end, fault] = std::from_chars(key.data(), key.data() + key.size(), id);
    const bool whole = fault == std::errc() && end == key.data() + key.size();
    if (whole && id >= 0 && id < JsonSection::kMostIds) return id;
  }
  return std::nullopt;
}

// The eos_token declared by tokenizer_config.json, otherwise by special_tokens_map.json, in the
// folder of the tokenizer.json at `path`; empty content if there is none. Throws DataError for
// damaged files.
DeclaredEnd declared_end(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  const auto config_file = folder / "tokenizer_config.json";
  const json config = object_of(config_file);
  DeclaredEnd end{.content = content_of(config, "eos_token"), .place = config_file.string()};
  if (end.content.empty()) {
    const auto map_file = folder / "special_tokens_map.json";
    end.content = content_of(object_of(map_file), "eos_token");
    end.place = map_file.string();
  }
  if (!end.content.empty()) end.id = id_of(config, end.content);
  return end;
}

// No match of these patterns continues from another character into a space, so a text can be split
// there: GPT-2, Llama 3, Qwen.
constexpr std::string_view kQwenPattern{
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};

bool normalizes_only_to_nfc(const TokenizerJson& spec) {
  return std::all_of(
      spec.normalizer.begin(), spec.normalizer.end(),
      [](const NormalizerStep& step) { return step.kind == NormalizerStep::Kind::kNfc; });
}

bool stops_at_spaces(const TokenizerJson& spec) {
  const PreTokenizerSpec& rules = spec.pre_tokenizer;
  if (rules.splits.empty()) return rules.splits_by_gpt2;
  if (rules.splits.size() != 1 || rules.splits_by_gpt2 || rules.prefix_space) return false;
  const PatternSpec& pattern = rules.splits[0].pattern;
  return rules.splits[0].parts == PreTokenizerSpec::Parts::kAll &&
         pattern.kind == Pattern::Kind::kRegex &&
         (pattern.text == kQwenPattern || is_tiktoken_pattern(pattern.text));
}

// Whether a split before a space could separate text that an added token would consume.
bool reaches_over_spaces(const AddedToken& token) {
  return token.takes_right || token.content.find(' ', 1) != std::string::npos;
}

// What a space within a text becomes, if normalizer and pre-tokenizer change a character without
// regard to its neighbors, and no added token reaches over it; otherwise empty.
std::string space_of(const TokenizerJson& spec) {
  using Kind = NormalizerStep::Kind;
  std::string space = " ";
  for (const NormalizerStep& step : spec.normalizer) {
    const bool replaces = step.kind == Kind::kReplace && step.pattern.text == " " &&
                          step.pattern.kind == Pattern::Kind::kLiteral;
    if (step.kind == Kind::kReplace && !replaces) return "";
    if (replaces && space == " ") space = step.content;
  }
  const PreTokenizerSpec& rules = spec.pre_tokenizer;
  // A split at spaces finds none where the normalizer has replaced them.
  const bool splits = std::any_of(rules.splits.begin(), rules.splits.end(),
                                  [&](const PreTokenizerSpec::Split& split) {
                                    return space == " " || split.pattern.text != " " ||
                                           split.pattern.kind != Pattern::Kind::kLiteral;
                                  });
  if (splits) return "";
  if (rules.metaspace && space == " ") space = rules.metaspace->mark;
  if (rules.metaspace && space != rules.metaspace->mark) return "";
  if (character_size(space) != space.size()) return "";
  for (const AddedToken& token : spec.added) {
    if (token.content.find(' ', 1) != std::string::npos) return "";
    if (token.normalized && token.content.find(space, 1) != std::string::npos) return "";
  }
  return space;
}

Merges table_of(const std::vector<TokenizerJson::Merge>& list) {
  Merges table(list.size());
  for (const TokenizerJson::Merge& merge : list) {
    table.add(merge.left, merge.right, {merge.rank, merge.result});
  }
  return table;
}

std::vector<AddedToken> choose(const TokenizerJson& spec, const Normalizer& normalizer,
                               bool normalized) {
  std::vector<AddedToken> chosen;
  MatchRoom room;
  std::string buffer;
  for (AddedToken token : spec.added) {
    if (token.normalized != normalized) continue;
    if (normalized) {
      token.content = std::string(normalizer.apply(room, token.content, false, buffer));
      if (token.content.empty()) continue;
    }
    chosen.push_back(std::move(token));
  }
  return chosen;
}

// `make()`, with the tokenizer's path before its complaint.
template <class Make>
auto with_path(const std::string& path, const Make& make) {
  try {
    return make();
  } catch (const DataError& error) {
    throw DataError(say("tokenizer ", path, ": ", error.what()));
  }
}

std::int32_t find_end(const std::vector<AddedToken>& added,
                      const std::vector<std::optional<std::string>>& texts,
                      const std::string& path) {
  const DeclaredEnd declared = declared_end(path);
  const auto added_id = [&](const std::string& name) {
    const auto found = std::find_if(added.begin(), added.end(),
                                    [&](const AddedToken& token) { return token.content == name; });
    return found == added.end() ? -1 : found->id;
  };
  if (!declared.content.empty()) {
    if (const std::int32_t id = added_id(declared.content); id >= 0) return id;
    if (declared.id) {
      const auto at = static_cast<std::size_t>(*declared.id);
      if (at >= texts.size() || !texts[at] || texts[at] == declared.content) return *declared.id;
      throw DataError(say(declared.place, ": the eos_token \"", declared.content, "\" has the id ",
                          at, " in added_tokens_decoder, which is another token in ", path,
                          "; correct one of the two"));
    }
    const auto found = std::find(texts.begin(), texts.end(), declared.content);
    if (found != texts.end()) return static_cast<std::int32_t>(found - texts.begin());
  }
  for (const char* name : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"}) {
    if (const std::int32_t id = added_id(name); id >= 0) return id;
  }
  return -1;
}

// A token declared only by tokenizer_config.json is after those of tokenizer.json, or in a gap.
void make_room(std::vector<std::optional<std::string>>& texts, std::int32_t id,
               const std::string& path) {
  if (id < 0) return;
  const auto at = static_cast<std::size_t>(id);
  if (at >= texts.size()) texts.resize(at + 1);
  if (!texts[at]) texts[at] = declared_end(path).content;
}

std::string hash_of(const std::string& content, std::int32_t end) {
  return hex(XXH3_64bits_withSeed(content.data(), content.size(), static_cast<std::uint64_t>(end)));
}

}  // namespace

BpeTokenizer::BpeTokenizer(const std::string& path, const std::string& content, Format format)
    : BpeTokenizer(path, content, format,
                   format == Format::kTiktoken ? parse_tiktoken(path, content)
                                               : parse_tokenizer_json(path, content)) {}

BpeTokenizer::BpeTokenizer(std::string path, const std::string& content, Format format,
                           TokenizerJson spec)
    : format_(format),
      path_(std::move(path)),
      surroundings_(std::move(spec.surroundings)),
      texts_(spec.texts),
      symbols_(spec.symbols),
      merges_(table_of(spec.merges)),
      normalizer_(with_path(path_, [&] { return Normalizer(spec.normalizer); })),
      pre_tokenizer_(with_path(path_, [&] { return PreTokenizer(spec.pre_tokenizer); })),
      raw_(choose(spec, normalizer_, false)),
      normalized_(choose(spec, normalizer_, true)),
      end_of_document_(find_end(spec.added, texts_, path_)) {
  make_room(texts_, end_of_document_, path_);
  hash_ = hash_of(content, end_of_document_);
  // The pattern of a tiktoken file is not in it.
  if (format_ == Format::kTiktoken) {
    hash_ = hash_of(hash_ + spec.pre_tokenizer.splits[0].pattern.text, end_of_document_);
  }
  const auto holds = [&](auto&& fault) {
    return std::none_of(spec.added.begin(), spec.added.end(), fault);
  };
  if (symbols_.by_byte()) {
    cuts_before_spaces_ =
        normalizes_only_to_nfc(spec) && stops_at_spaces(spec) && holds(reaches_over_spaces);
  } else {
    safe_cuts_.emplace(spec, symbols_);
    decoder_.emplace(with_path(path_, [&] { return Decoder(spec.decoder); }));
    space_ = space_of(spec);
    cuts_before_spaces_ = !space_.empty() && !spec.ignore_merges;
    for (const AddedToken& token : spec.added) added_.push_back(token.content);
  }
  const PreTokenizerSpec& rules = spec.pre_tokenizer;
  lossless_ = symbols_.by_byte() && symbols_.has_all_bytes() && normalizer_.empty() &&
              !rules.prefix_space &&
              std::none_of(rules.splits.begin(), rules.splits.end(),
                           [](const PreTokenizerSpec::Split& split) {
                             return split.parts == PreTokenizerSpec::Parts::kMatches;
                           }) &&
              holds([](const AddedToken& token) { return token.takes_left || token.takes_right; });
  if (!spec.ignore_merges) return;
  for (const std::int32_t id : spec.words) words_.emplace(*texts_[id], id);
}

std::unique_ptr<Encoder> BpeTokenizer::encoder() const {
  return std::make_unique<BpeEncoder>(*this);
}

std::string BpeTokenizer::decode(std::span<const std::int32_t> ids) const {
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) {
    if (id < 0 || id >= vocab_size() || !texts_[id]) {
      throw DataError(say("the id ", id, " is none of the ", vocab_size(), " of ", path_));
    }
    if (id != end_of_document_) tokens.push_back(*texts_[id]);
  }
  if (decoder_) return decoder_->decode(std::move(tokens));
  std::string text;
  for (const std::string& token : tokens) text += token;
  return text;
}

bool BpeTokenizer::may_cut(std::string_view before) const {
  if (symbols_.by_byte()) return true;
  // What follows an added token may get a prefix.
  return safe_cuts_->is_safe(before.substr(before.size() - 1), space_) &&
         std::none_of(added_.begin(), added_.end(), [&](const std::string& token) {
           return before.size() >= token.size() &&
                  before.substr(before.size() - token.size()) == token;
         });
}

std::size_t BpeTokenizer::last_cut(std::string_view text) const {
  if (!cuts_before_spaces_) return 0;
  for (std::size_t at = text.rfind(' '); at != std::string_view::npos && at > 0;
       at = text.rfind(' ', at - 1)) {
    const std::string_view before = text.substr(0, at);
    const auto last = static_cast<unsigned char>(before.back());
    // Non-ASCII white space ends with a byte that other characters end with too.
    if (last > ' ' && last < 0x7F && may_cut(before)) return at;
  }
  return 0;
}

}  // namespace trireme::data
