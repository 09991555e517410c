#include "data/sentencepiece_trainer.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "data/text_reader.h"
#include "data/tokenize.h"
#include "data/utf8.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/philox.h"

namespace trireme::data {
namespace {

constexpr std::size_t kLongestLine = 65536;  // also passed to the library

// The library trains only on UTF-8 without NUL.
bool is_trainable(std::string_view line) {
  if (line.empty() || line.size() > kLongestLine) return false;
  while (!line.empty()) {
    const std::size_t size = character_size(line);
    if (size == 0 || line.front() == '\0') return false;
    line.remove_prefix(size);
  }
  return true;
}

// Keeps each line with the probability that fills the sample, by a hash of its number.
class Sampler {
 public:
  Sampler(std::uint64_t input_bytes, std::uint64_t sample_bytes)
      : chance_(input_bytes <= sample_bytes
                    ? 1.0
                    : static_cast<double>(sample_bytes) / static_cast<double>(input_bytes)) {}

  void add(std::string_view text) {
    sample_.text_bytes += text.size();
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      add_line(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  const std::vector<std::string>& lines() const { return lines_; }
  VocabularySample sample() const { return sample_; }

 private:
  void add_line(std::string_view line) {
    const std::uint64_t number = number_++;
    if (chance_ < 1 && philox(0, number)[0] >= chance_ * 4294967296.0) return;
    if (!is_trainable(line)) return;
    lines_.emplace_back(line);
    sample_.used_bytes += line.size();
    ++sample_.lines;
  }

  double chance_;
  std::uint64_t number_ = 0;
  std::vector<std::string> lines_;
  VocabularySample sample_;
};

class LineIterator : public sentencepiece::SentenceIterator {
 public:
  explicit LineIterator(const std::vector<std::string>& lines) : lines_(lines) {}
  bool done() const override { return at_ >= lines_.size(); }
  void Next() override { ++at_; }
  const std::string& value() const override { return lines_[at_]; }
  sentencepiece::util::Status status() const override { return {}; }

 private:
  const std::vector<std::string>& lines_;
  std::size_t at_ = 0;
};

Sampler take_sample(const std::vector<InputFile>& inputs, const VocabularySpec& spec) {
  std::uint64_t bytes = 0;
  for (const InputFile& input : inputs) {
    if (input.compression != InputFile::Compression::kNone) {
      throw DataError(say(input.path.string(),
                          ": is compressed, so its size is not known before it is read; unpack it "
                          "to train a vocabulary on it"));
    }
    bytes += input.bytes;
  }
  Sampler sampler(bytes, spec.sample_bytes);
  // Training uses lines, so a text may be split after any newline.
  TextReader reader(inputs, [](std::string_view text) { return text.rfind('\n') + 1; });
  for (TextBatch batch; reader.next(batch);) {
    for (const TextPiece& piece : batch.pieces) {
      const std::string_view raw =
          std::string_view(batch.text).substr(piece.begin, piece.end - piece.begin);
      if (piece.line == 0) {
        sampler.add(raw);
      } else {
        sampler.add(text_of_json(raw, spec.json_key,
                                 say(inputs[piece.file].path.string(), ":", piece.line)));
      }
    }
  }
  return sampler;
}

std::unordered_map<std::string, std::string> flags(const VocabularySpec& spec) {
  // The library writes its number of threads into the model, so keep the default.
  return {{"vocab_size", std::to_string(spec.vocab_size)},
          {"model_type", "bpe"},
          {"byte_fallback", "true"},
          {"character_coverage", "1.0"},
          {"normalization_rule_name", "identity"},
          {"add_dummy_prefix", "false"},
          {"remove_extra_whitespaces", "false"},
          {"allow_whitespace_only_pieces", "true"},
          {"split_digits", "true"},
          {"max_sentence_length", std::to_string(kLongestLine)},
          {"minloglevel", "2"}};
}

}  // namespace

void train_sentencepiece(const std::vector<InputFile>& inputs, const VocabularySpec& spec,
                         const std::filesystem::path& output,
                         const std::function<void(const VocabularySample&)>& on_sample) {
  const Sampler sampler = take_sample(inputs, spec);
  if (sampler.lines().empty()) {
    throw DataError("the input has no line of UTF-8 text to train a vocabulary on");
  }
  on_sample(sampler.sample());
  LineIterator lines(sampler.lines());
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(flags(spec), &lines, &model);
  if (!status.ok()) {
    throw DataError(say("cannot train a vocabulary of ", spec.vocab_size, " on ",
                        sampler.sample().used_bytes, " bytes of text: ", status.ToString()));
  }
  if (output.has_parent_path()) make_folders(output.parent_path());
  replace_text(output, model);
}

}  // namespace trireme::data
