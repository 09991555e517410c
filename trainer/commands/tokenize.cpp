#include "trainer/commands/command.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "data/indexed_dataset.h"
#include "data/sentencepiece_trainer.h"
#include "data/tokenize.h"
#include "model/base/human.h"
#include "trainer/telemetry/progress_line.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct TokenizeOptions {
  std::string tokenizer;
  std::string output;
  std::string json_key = "text";
  std::vector<std::string> inputs;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  bool end_documents = true;
  double validation_share = 0;
  std::int64_t train_vocab_size = 0;
  std::uint64_t sample_megabytes = 16;
  std::string others_as;
  bool skip_others = false;
};

// One line redrawn on a terminal, one line every ten seconds elsewhere; on stderr.
class TokenizeProgress {
 public:
  explicit TokenizeProgress(std::uint64_t total_bytes) : total_(total_bytes) {}
  ~TokenizeProgress() {
    if (drawn_) fmt::print(stderr, "\r\x1B[K");
  }
  TokenizeProgress(const TokenizeProgress&) = delete;
  TokenizeProgress& operator=(const TokenizeProgress&) = delete;

  void show(const data::TokenizeCount& count) {
    if (count.resumed_documents > resumed_) {
      resumed_ = count.resumed_documents;
      fmt::print(stderr, "resuming after {} documents of an interrupted run\n", grouped(resumed_));
    }
    const double now = seconds_since(start_);
    if (now - shown_ < (terminal_ ? 0.2 : 10.0)) return;
    shown_ = now;
    const double share = static_cast<double>(count.input_bytes) /
                         static_cast<double>(std::max<std::uint64_t>(total_, 1));
    const double done = share - static_cast<double>(count.resumed_bytes) /
                                    static_cast<double>(std::max<std::uint64_t>(total_, 1));
    const std::vector<std::string> parts{
        human_count(static_cast<double>(count.tokens)) + " tokens",
        human_count(static_cast<double>(count.tokens - count.resumed_tokens) / now) + " tok/s",
        "ETA " + human_duration(done > 0 ? now * (1 - share) / done : 0),
        grouped(count.documents) + " documents"};
    if (terminal_) {
      const Progress progress{
          .done = static_cast<std::int64_t>(count.input_bytes >> 20),
          .total = std::max<std::int64_t>(1, static_cast<std::int64_t>(total_ >> 20)),
          .parts = parts};
      fmt::print(stderr, "\r\x1B[K{}", progress_line(progress, terminal_width(STDERR_FILENO)));
      drawn_ = true;
    } else {
      fmt::print(stderr, "tokenize: {:.0f}%  {}  {}  {}  {}\n", 100 * share, parts[0], parts[1],
                 parts[2], parts[3]);
    }
    std::fflush(stderr);
  }

 private:
  std::uint64_t total_;
  Clock::time_point start_ = Clock::now();
  double shown_ = 0;
  std::int64_t resumed_ = 0;
  bool terminal_ = ::isatty(STDERR_FILENO) == 1;
  bool drawn_ = false;
};

std::uint64_t total_bytes(const std::vector<data::InputFile>& inputs) {
  std::uint64_t bytes = 0;
  for (const data::InputFile& input : inputs) bytes += input.bytes;
  return bytes;
}

// "a.md, b.md, c.md and 4 more"
template <class Range>
std::string first_few(const Range& paths) {
  constexpr std::size_t kNamed = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(kNamed, paths.size()); ++i) {
    text += (i > 0 ? ", " : "") + paths[i].string();
  }
  if (paths.size() > kNamed) text += fmt::format(" and {} more", paths.size() - kNamed);
  return text;
}

// Prints the files to read, by kind, and the skipped ones.
void print_inputs(const data::Inputs& inputs) {
  std::map<std::pair<bool, std::string>, int> kinds;
  std::vector<std::filesystem::path> impure;
  for (const data::InputFile& file : inputs.files) {
    ++kinds[{file.json_lines, file.kind}];
    if (!file.is_pure_utf8) impure.push_back(file.path);
  }
  std::string list;
  for (const auto& [kind, count] : kinds) {
    list += fmt::format("{}{} {} as {}", list.empty() ? "" : ", ", grouped(count),
                        kind.second.empty() ? "without extension" : kind.second,
                        kind.first ? "JSON lines" : "text");
  }
  fmt::print("reading {} in {} files: {}\n", human_bytes(total_bytes(inputs.files)),
             grouped(static_cast<std::int64_t>(inputs.files.size())), list);
  if (!inputs.skipped.empty()) {
    fmt::print("skipping {} files: {}\n", inputs.skipped.size(), first_few(inputs.skipped));
  }
  std::fflush(stdout);
  if (impure.empty()) return;
  fmt::print(stderr, "note: {} files are not valid UTF-8; their bytes are kept: {}\n",
             impure.size(), first_few(impure));
}

data::Inputs find_inputs(const TokenizeOptions& options) {
  using Others = data::InputRules::Others;
  data::InputRules rules;
  if (options.skip_others) rules.others = Others::kSkip;
  if (options.others_as == "text") rules.others = Others::kAsText;
  if (options.others_as == "jsonl") rules.others = Others::kAsJsonLines;
  data::Inputs inputs = data::find_inputs(options.inputs, rules);
  print_inputs(inputs);
  return inputs;
}

ExitCode run_training(const TokenizeOptions& options) {
  const auto inputs = find_inputs(options).files;
  const Clock::time_point start = Clock::now();
  const data::VocabularySpec spec{.vocab_size = options.train_vocab_size,
                                  .json_key = options.json_key,
                                  .sample_bytes = options.sample_megabytes << 20};
  data::train_sentencepiece(inputs, spec, options.output, [](const data::VocabularySample& sample) {
    fmt::print("training on {} of {} of text ({} lines); this takes a while\n",
               human_bytes(sample.used_bytes), human_bytes(sample.text_bytes),
               grouped(static_cast<std::int64_t>(sample.lines)));
    std::fflush(stdout);
  });
  fmt::print("wrote {}: a SentencePiece vocabulary of {} in {}\n", options.output,
             options.train_vocab_size, human_duration(seconds_since(start)));
  return ExitCode::kDone;
}

ExitCode run_tokenize(const TokenizeOptions& options) {
  if (options.train_vocab_size > 0) return run_training(options);
  if (options.tokenizer.empty()) {
    throw ConfigError(
        "--tokenizer is missing: give \"bytes\", a tokenizer.json, a SentencePiece .model or a "
        "Hugging "
        "Face folder, or train one with "
        "--train-sentencepiece VOCAB_SIZE --output FILE.model");
  }
  const auto tokenizer = data::open_tokenizer(options.tokenizer);
  if (!tokenizer->path().empty() && tokenizer->path() != options.tokenizer) {
    fmt::print("tokenizer: {}\n", tokenizer->path());
  }
  if (!tokenizer->lossless()) {
    fmt::print(stderr,
               "note: {} is not lossless: decoding may differ from the input (it normalizes, or "
               "has no byte fallback)\n",
               options.tokenizer);
  }
  if (!tokenizer->surroundings().empty()) {
    fmt::print(stderr,
               "note: {} adds {} around a text; documents hold the text alone, terminated "
               "according to --append-eod\n",
               options.tokenizer, tokenizer->surroundings());
  }
  const auto inputs = find_inputs(options).files;
  const data::TokenizeSpec spec{.output = options.output,
                                .json_key = options.json_key,
                                .threads = options.threads,
                                .end_documents = options.end_documents,
                                .validation_share = options.validation_share};
  const Clock::time_point start = Clock::now();
  std::optional<TokenizeProgress> progress(total_bytes(inputs));
  const data::TokenizeCount count = data::tokenize(
      *tokenizer, inputs, spec, [&](const data::TokenizeCount& so_far) { progress->show(so_far); });
  progress.reset();
  const double seconds = seconds_since(start);
  fmt::print("wrote {} and {}\n", data::tokens_path(spec.output).string(),
             data::index_path(spec.output).string());
  if (spec.validation_share > 0) {
    fmt::print("and {}-validation\n", spec.output.string());
  }
  fmt::print("{} documents, {} tokens of {} from {} of text ({:.2f} bytes per token)\n",
             grouped(count.documents), grouped(count.tokens),
             data::name_of(data::smallest_type(tokenizer->vocab_size())),
             human_bytes(count.text_bytes),
             static_cast<double>(count.text_bytes) /
                 static_cast<double>(std::max<std::int64_t>(count.tokens, 1)));
  fmt::print("in {} with {} threads: {} tok/s, {:.1f} MB/s of input\n", human_duration(seconds),
             options.threads,
             human_count(static_cast<double>(count.tokens - count.resumed_tokens) / seconds),
             static_cast<double>(count.input_bytes - count.resumed_bytes) / 1e6 / seconds);
  return ExitCode::kDone;
}

}  // namespace

Command make_tokenize(CLI::App& program) {
  const auto options = std::make_shared<TokenizeOptions>();
  CLI::App* app = program.add_subcommand(
      "tokenize",
      "Tokenize text into Megatron-LM's .bin and .idx files, or train a SentencePiece vocabulary");
  auto* tokenizer =
      app->add_option("--tokenizer", options->tokenizer,
                      "Tokenizer: bytes, or the path of a tokenizer.json, a "
                      "SentencePiece .model, a tiktoken file or a Hugging Face folder");
  app->add_option(
         "--output", options->output,
         "Output prefix (PREFIX.bin, PREFIX.idx); with --train-sentencepiece, the .model file")
      ->required();
  app->add_option("--jsonl-key", options->json_key, "Key that holds the text in JSON lines")
      ->capture_default_str();
  auto* as =
      app->add_option("--as", options->others_as, "Format of files whose type is not recognized")
          ->check(CLI::IsMember({"text", "jsonl"}));
  app->add_flag("--skip-others", options->skip_others,
                "Skip and list files whose type is not recognized; without --as or --skip-others "
                "they are an error")
      ->excludes(as);
  app->add_option("--threads", options->threads,
                  "Number of threads (default: one per core); the output does not depend on it")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app->add_flag("--append-eod,!--no-append-eod", options->end_documents,
                "Append the end-of-document token to every document (default: on)");
  app->add_option("--split", options->validation_share,
                  "Fraction of the documents written to PREFIX-validation, selected by a hash of "
                  "the document number")
      ->check(CLI::Range(0.0, 0.999))
      ->type_name("FRACTION");
  app->add_option(
         "--train-sentencepiece", options->train_vocab_size,
         "Train a SentencePiece vocabulary of this size on the input and write it to --output")
      ->check(CLI::Range(300, 1000000))
      ->type_name("VOCAB_SIZE")
      ->excludes(tokenizer);
  app->add_option("--sample-mb", options->sample_megabytes,
                  "Maximum amount of text to train the vocabulary on, in megabytes, sampled evenly "
                  "from the input")
      ->check(CLI::Range(1, 100000))
      ->type_name("MB")
      ->capture_default_str();
  app->add_option("INPUT", options->inputs,
                  "Text files (one document per file: .txt .text .md .markdown .rst .tex .raw "
                  ".tokens, or no extension); JSON lines (one document per line: .jsonl .ndjson, "
                  "or .json with an object per line); either also compressed (.gz, .zst); folders "
                  "of such files; or @LIST, a file with one such path per line")
      ->required();
  app->footer("If interrupted, run the same command again to resume.");
  return {.app = app, .run = [options] { return run_tokenize(*options); }};
}

}  // namespace trireme
