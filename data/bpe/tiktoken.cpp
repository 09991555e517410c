#include "data/bpe/tiktoken.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <utility>

#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::data {
namespace {

constexpr std::size_t kLongestToken = 1024;

struct Encoding {
  const char* name;
  std::size_t ranks;    // of the published file
  const char* pattern;  // equivalent to the published one
};
constexpr std::array<Encoding, 3> kEncodings{
    {{"llama3", 128000,
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
     {"cl100k_base", 100256,
      R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s++(?!\S)|\s*[\r\n]|\s+(?!\S)|\s)"},
     {"o200k_base", 199998,
      R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}}};

using Special = std::pair<std::string, std::int32_t>;

std::vector<Special> llama3_specials(std::int32_t first) {
  constexpr std::array<const char*, 10> kNamed{
      "<|begin_of_text|>",   "<|end_of_text|>",   nullptr, nullptr,     nullptr, nullptr,
      "<|start_header_id|>", "<|end_header_id|>", nullptr, "<|eot_id|>"};
  std::vector<Special> all;
  int reserved = 0;
  for (std::size_t i = 0; i < 256; ++i) {
    std::string name = i < kNamed.size() && kNamed[i] != nullptr
                           ? kNamed[i]
                           : say("<|reserved_special_token_", reserved++, "|>");
    all.emplace_back(std::move(name), first + static_cast<std::int32_t>(i));
  }
  return all;
}

// OpenAI's files leave gaps between the ranks and these.
std::vector<Special> specials(const Encoding& encoding, std::int32_t ranks) {
  const std::string name = encoding.name;
  if (name == "llama3") return llama3_specials(ranks);
  if (name == "o200k_base") return {{"<|endoftext|>", ranks + 1}, {"<|endofprompt|>", ranks + 20}};
  return {{"<|endoftext|>", ranks + 1},
          {"<|fim_prefix|>", ranks + 2},
          {"<|fim_middle|>", ranks + 3},
          {"<|fim_suffix|>", ranks + 4},
          {"<|endofprompt|>", ranks + 20}};
}

const Encoding& encoding_of(const std::string& path, std::size_t ranks) {
  const auto beside = std::filesystem::path(path).parent_path() / "tiktoken.json";
  std::error_code why;
  if (!std::filesystem::exists(beside, why)) {
    const auto* found =
        std::find_if(kEncodings.begin(), kEncodings.end(),
                     [&](const Encoding& encoding) { return encoding.ranks == ranks; });
    return found == kEncodings.end() ? kEncodings[0] : *found;
  }
  std::string name;
  try {
    const auto whole =
        nlohmann::json::parse(read_text(beside, 1u << 16), nullptr, /*allow_exceptions=*/false);
    if (!whole.is_object()) throw DataError(say(beside.string(), ": is not a JSON object"));
    const JsonSection section(whole, beside.string());
    section.only({"encoding"});
    name = section.text("encoding");
  } catch (const EnvironmentError& error) {
    throw DataError(error.what());
  }
  const auto* found = std::find_if(kEncodings.begin(), kEncodings.end(),
                                   [&](const Encoding& encoding) { return encoding.name == name; });
  if (found == kEncodings.end()) {
    throw DataError(say(beside.string(), ": the encoding \"", name,
                        "\" is none of llama3, cl100k_base, o200k_base"));
  }
  return *found;
}

int base64_digit(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// nullopt if `text` is not padded base64 of at least one byte.
std::optional<std::string> from_base64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  const std::size_t digits = std::min(text.find('='), text.size());
  if (text.size() - digits > 2 || text.find_first_not_of('=', digits) != std::string_view::npos) {
    return std::nullopt;
  }
  std::string bytes;
  unsigned held = 0;
  int bits = 0;
  for (const char c : text.substr(0, digits)) {
    const int digit = base64_digit(c);
    if (digit < 0) return std::nullopt;
    held = (held << 6 | static_cast<unsigned>(digit)) & 0xFFFu;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(held >> bits & 0xFFu);
  }
  return bytes;
}

struct Line {
  std::string token;
  std::int32_t rank;
};

std::optional<Line> parse_line(std::string_view line) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  std::optional<std::string> token = from_base64(line.substr(0, space));
  std::int32_t rank = -1;
  const char* end = line.data() + line.size();
  const auto [stop, fault] = std::from_chars(line.data() + space + 1, end, rank);
  const bool good = token && fault == std::errc() && stop == end && rank >= 0;
  return good ? std::optional<Line>({std::move(*token), rank}) : std::nullopt;
}

class Reader {
 public:
  Reader(const std::string& path, std::string_view content) : path_(path), content_(content) {}

  TokenizerJson run() {
    read_ranks();
    const std::size_t ranks = spec_.texts.size();
    symbols();
    merges();
    const Encoding& encoding = encoding_of(path_, ranks);
    PreTokenizerSpec& rules = spec_.pre_tokenizer;
    rules.byte_level = true;
    rules.splits.push_back(
        {{encoding.pattern, Pattern::Kind::kRegex}, PreTokenizerSpec::Parts::kAll});
    spec_.ignore_merges = true;
    for (auto& [content, id] : specials(encoding, static_cast<std::int32_t>(ranks))) {
      spec_.texts.resize(std::max<std::size_t>(spec_.texts.size(), id + 1));
      spec_.texts[id] = content;
      spec_.added.push_back({.id = id, .content = content, .special = true});
    }
    return std::move(spec_);
  }

 private:
  [[noreturn]] void wrong(std::string_view what) const {
    throw DataError(say("tokenizer ", path_, ": ", what));
  }

  void read_ranks() {
    const auto lines = static_cast<std::size_t>(std::count(content_.begin(), content_.end(), '\n') +
                                                (content_.back() == '\n' ? 0 : 1));
    if (lines >= JsonSection::kMostIds)
      wrong(say("has more than ", JsonSection::kMostIds, " lines"));
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < content_.size();) {
      const std::size_t end = std::min(content_.find('\n', begin), content_.size());
      const std::optional<Line> line = parse_line(content_.substr(begin, end - begin));
      const std::string place = say("line ", ++number);
      if (!line) wrong(say(place, " is not \"base64 rank\""));
      if (line->token.size() > kLongestToken) {
        wrong(say(place, ": the token has more than ", kLongestToken, " bytes"));
      }
      const auto rank = static_cast<std::size_t>(line->rank);
      if (rank >= lines) wrong(say(place, ": the rank ", rank, " is beyond the ", lines, " lines"));
      spec_.texts.resize(lines);
      if (spec_.texts[rank]) wrong(say(place, ": the rank ", rank, " comes twice"));
      if (!ids_.emplace(line->token, line->rank).second)
        wrong(say(place, ": the token comes twice"));
      spec_.texts[rank] = line->token;
      spec_.words.push_back(line->rank);
      begin = end + 1;
    }
  }

  std::int32_t id_of(const std::string& token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }

  void symbols() {
    spec_.symbols.by_byte = true;
    for (int byte = 0; byte < 256; ++byte) {
      const std::int32_t id = id_of(std::string(1, static_cast<char>(byte)));
      if (id < 0) wrong(say("has no token of the byte ", byte));
      spec_.symbols.bytes[byte] = id;
    }
  }

  // Two neighbors merge where the vocabulary has both together, by its rank.
  void merges() {
    for (std::size_t id = 0; id < spec_.texts.size(); ++id) {
      const std::string& token = *spec_.texts[id];
      for (std::size_t cut = 1; cut < token.size(); ++cut) {
        const std::int32_t left = id_of(token.substr(0, cut));
        const std::int32_t right = left < 0 ? -1 : id_of(token.substr(cut));
        if (right < 0) continue;
        const auto result = static_cast<std::int32_t>(id);
        spec_.merges.push_back({left, right, result, static_cast<std::uint32_t>(id)});
      }
    }
  }

  const std::string& path_;
  std::string_view content_;
  TokenizerJson spec_;
  std::unordered_map<std::string, std::int32_t> ids_;
};

}  // namespace

bool is_tiktoken(std::string_view content) {
  return parse_line(content.substr(0, std::min(content.find('\n'), content.size()))).has_value();
}

bool is_tiktoken_pattern(std::string_view pattern) {
  return std::any_of(kEncodings.begin(), kEncodings.end(),
                     [&](const Encoding& encoding) { return encoding.pattern == pattern; });
}

TokenizerJson parse_tiktoken(const std::string& path, std::string_view content) {
  return Reader(path, content).run();
}

}  // namespace trireme::data
