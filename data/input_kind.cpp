#include "data/input_kind.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "data/byte_source.h"
#include "data/utf8.h"
#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme::data {
namespace {

constexpr std::size_t kSampleBytes = 64u << 10;
constexpr std::uint64_t kSamples = 4;  // evenly over the file, including its beginning and end
constexpr double kMostInvalid =
    0.1;  // Latin-1 text of Western Europe is below this, other encodings are not

constexpr std::array<std::string_view, 8> kTextExtensions{".txt", ".text", ".md",  ".markdown",
                                                          ".rst", ".tex",  ".raw", ".tokens"};

constexpr std::string_view kParquet =
    "is Parquet, which is not supported; convert it to JSON lines first (Hugging Face datasets: "
    "Dataset.from_parquet(FILE).to_json(\"FILE.jsonl\"))";
constexpr std::string_view kArrow =
    "is Arrow, which is not supported; convert it to JSON lines first (Hugging Face datasets: "
    "Dataset.from_file(FILE).to_json(\"FILE.jsonl\"))";
constexpr std::string_view kTable =
    "is a table, which is not supported; convert it to JSON lines first (Hugging Face datasets: "
    "Dataset.from_csv(FILE).to_json(\"FILE.jsonl\"))";
constexpr std::string_view kArchive = "is an archive; unpack it and give the folder";

struct Known {
  std::string_view text;  // an extension, or a magic number
  std::string_view fault;
};
constexpr std::array kExtensions{Known{".parquet", kParquet}, Known{".arrow", kArrow},
                                 Known{".feather", kArrow},   Known{".csv", kTable},
                                 Known{".tsv", kTable},       Known{".tar", kArchive},
                                 Known{".tgz", kArchive}};
constexpr std::array kBeginnings{
    Known{"PAR1", kParquet}, Known{"ARROW1", kArrow},
    Known{"PK\x03\x04", "is a zip archive; unzip it first"},
    Known{"\xFD"
          "7zXZ",
          "is compressed with xz, which is not supported; unxz it first"},
    Known{"BZh", "is compressed with bzip2, which is not supported; bunzip2 it first"}};

bool is_text_name(const std::string& name) {
  if (std::find(kTextExtensions.begin(), kTextExtensions.end(), name) != kTextExtensions.end()) {
    return true;
  }
  // part.00001 is the first part of a split text.
  return std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return c == '.' || std::isdigit(c) != 0; });
}

std::string name_of_kind(const InputFile& file) {
  const bool packed = file.compression != InputFile::Compression::kNone;
  const std::string extension = file.path.extension().string();
  const bool named = packed && (extension == ".gz" || extension == ".zst");
  std::string name = named ? file.path.stem().extension().string() : extension;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

std::vector<std::string> samples_of(const InputFile& file) {
  std::vector<std::string> samples;
  if (file.compression != InputFile::Compression::kNone) {
    std::string text(kSamples * kSampleBytes, '\0');
    text.resize(open_source(file)->read(text));
    return {text};
  }
  const File opened = File::open_read(file.path);
  const bool whole = file.bytes <= kSamples * kSampleBytes;
  const std::uint64_t size = whole ? file.bytes : kSampleBytes;
  for (std::uint64_t i = 0; i < (whole ? 1 : kSamples); ++i) {
    std::string text(size, '\0');
    const std::uint64_t begin = i * (file.bytes - size) / (kSamples - 1);
    opened.read_at(begin, std::as_writable_bytes(std::span(text)));
    samples.push_back(std::move(text));
  }
  return samples;
}

// Invalid bytes, except for characters cut off at the sample's ends.
std::size_t invalid_bytes(std::string_view sample) {
  constexpr std::size_t kCut = 3;
  std::size_t invalid = 0, at = 0;
  while (at < std::min(kCut, sample.size()) && (sample[at] & 0xC0) == 0x80) ++at;
  while (at < sample.size()) {
    const std::size_t size = character_size(sample.substr(at));
    if (size == 0 && at + kCut < sample.size()) ++invalid;
    at += std::max<std::size_t>(size, 1);
  }
  return invalid;
}

std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text;
}

// Whether the first line is a JSON object, or is longer than the sample and may be one.
bool begins_with_object(std::string_view text) {
  if (text.empty() || text.front() != '{') return false;
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos && text.size() >= kSampleBytes / 2) return true;
  return nlohmann::json::accept(text.substr(0, end));
}

// A text may begin with a bracket, so only arrays of objects count.
bool begins_with_array(std::string_view text, bool of_objects) {
  if (text.empty() || text.front() != '[') return false;
  return !of_objects || without_mark(text.substr(1)).starts_with('{');
}

std::string fault_of_content(const std::vector<std::string>& samples, InputKind& kind) {
  for (const Known& known : kBeginnings) {
    if (samples.front().starts_with(known.text)) return std::string(known.fault);
  }
  std::size_t bytes = 0, invalid = 0;
  for (const std::string& sample : samples) {
    if (sample.find('\0') != std::string::npos) {
      return "contains NUL bytes: it is binary, or UTF-16 (convert with iconv -f UTF-16 -t UTF-8)";
    }
    bytes += sample.size();
    invalid += invalid_bytes(sample);
  }
  kind.is_pure_utf8 = invalid == 0;
  const double share =
      static_cast<double>(invalid) / static_cast<double>(std::max<std::size_t>(bytes, 1));
  if (share <= kMostInvalid) return "";
  return say(static_cast<int>(100 * share),
             " % of its bytes are not UTF-8: it is binary, or in another encoding (convert with "
             "iconv -t UTF-8)");
}

std::string fault_of_form(std::string_view text, InputKind& kind) {
  constexpr const char* kArray =
      "is a JSON array; convert it to JSON lines, one object per line (jq -c '.[]' FILE > "
      "FILE.jsonl)";
  const bool is_json = kind.name == ".json";
  if (kind.json_lines || is_json) {
    if (begins_with_array(text, false)) return kArray;
    if (kind.json_lines || begins_with_object(text)) {
      kind.json_lines = true;
      return "";
    }
    return "is JSON, but not one object per line; convert it to JSON lines (jq -c . FILE > "
           "FILE.jsonl)";
  }
  if (!is_text_name(kind.name)) {
    return say("files of type ", kind.name, " are not known as text");
  }
  if (begins_with_array(text, true)) return kArray;
  if (begins_with_object(text)) {
    return "looks like JSON lines; rename it to .jsonl, or read it with --as jsonl";
  }
  return "";
}

}  // namespace

InputKind judge_input(const InputFile& file) {
  InputKind kind;
  kind.name = name_of_kind(file);
  kind.json_lines = kind.name == ".jsonl" || kind.name == ".ndjson";
  for (const Known& known : kExtensions) {
    if (kind.name == known.text) kind.fault = known.fault;
  }
  if (!kind.fault.empty()) return kind;
  const std::vector<std::string> samples = samples_of(file);
  kind.fault = fault_of_content(samples, kind);
  if (kind.fault.empty()) kind.fault = fault_of_form(without_mark(samples.front()), kind);
  return kind;
}

}  // namespace trireme::data
