#include "trainer/commands/command.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/utf8.h"
#include "model/device/cpu/threads.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/loop/generation.h"
#include "trainer/loop/trained_model.h"

namespace trireme {
namespace {

struct GenerateOptions {
  std::string model;
  std::string prompt;
  std::string tokenizer;
  bool ema = false;
  std::int64_t max_tokens = 128;
  std::string device = "auto";
  std::int64_t threads = 0;
  Sampling sampling{.temperature = 0.8};
};

// Bytes at the end of `text` that begin a UTF-8 character but do not finish it.
std::size_t unfinished(const std::string& text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : byte >= 0xC0 ? 2 : 1;
    return length > back ? back : 0;
  }
  return 0;
}

// A model of bytes may draw ones that are no text.
void print(const std::string& text, std::size_t& printed, std::size_t end) {
  const std::string part = data::well_formed(std::string_view(text).substr(printed, end - printed));
  std::fwrite(part.data(), 1, part.size(), stdout);
  std::fflush(stdout);
  printed = end;
}

ExitCode run_generate(const GenerateOptions& options) {
  cpu::use_threads(options.threads);
  TrainedModel trained = open_trained_model(options.model, options.ema);
  const auto tokenizer = open_tokenizer_for(trained, options.tokenizer);
  const std::vector<std::int32_t> ids = prompt_ids(*tokenizer, options.prompt);
  const std::int64_t longest = trained.config.model.max_position_embeddings;
  const auto prompt = static_cast<std::int64_t>(ids.size());
  if (prompt >= longest) {
    throw ConfigError(
        say("the prompt has ", prompt, " tokens; the model's longest sequence is ", longest));
  }
  Inference model({.model = trained.config.model,
                   .device = open_device(options.device, 0),
                   .compute = compute_dtype(trained.config.training.dtype),
                   .seq_len = std::min(prompt + options.max_tokens, longest),
                   .micro_batch = 0,
                   .prompt = prompt});
  load_weights(trained, model);

  std::string text = options.prompt;
  std::size_t printed = 0;
  // The last token is drawn from the logits after `longest` tokens.
  const Generation generation{ids, std::min(options.max_tokens, longest - prompt + 1),
                              options.sampling, trained.config.special_tokens.eos_token_id};
  generate(
      generation, *tokenizer,
      [&](std::span<const std::int32_t> next) { return model.next_logits(next); },
      [&](std::span<const std::int32_t> answer) {
        text = options.prompt + tokenizer->decode(answer);
        print(text, printed, std::max(printed, text.size() - unfinished(text)));
      });
  print(text, printed, text.size());
  std::fputs("\n", stdout);
  return ExitCode::kDone;
}

}  // namespace

Command make_generate(CLI::App& program) {
  CLI::App* app = program.add_subcommand("generate", "Generate text with a trained model");
  auto options = std::make_shared<GenerateOptions>();
  app->add_option("RUN_OR_CHECKPOINT", options->model,
                  "A run folder (its newest checkpoint) or a checkpoint")
      ->required();
  app->add_option("--prompt", options->prompt,
                  "Text to continue; without it, generation starts a new document");
  app->add_option("--max-tokens", options->max_tokens, "Maximum number of tokens to generate")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->capture_default_str();
  app->add_option("--temperature", options->sampling.temperature,
                  "Sampling temperature; 0: always the most likely token")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app->add_option("--top-k", options->sampling.top_k,
                  "Sample from the k most likely tokens; 0: all")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 24))
      ->capture_default_str();
  app->add_option("--seed", options->sampling.seed,
                  "Sampling seed; the same seed gives the same text")
      ->capture_default_str();
  app->add_option(
      "--tokenizer", options->tokenizer,
      "Tokenizer: bytes, or a file or folder as in 'trireme tokenize' (default: the run's)");
  app->add_flag("--ema", options->ema, "Use the exponential average of the weights (training.ema)");
  app->add_option("--device", options->device, "Device; auto uses a GPU if there is one")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app->add_option("--threads", options->threads, "CPU threads; 0 (default): one per core")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{4096}));
  return {app, [options] { return run_generate(*options); }};
}

}  // namespace trireme
