#include "trainer/commands/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "model/base/human.h"
#include "model/device/cpu/threads.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/evaluation/multiple_choice.h"
#include "trainer/loop/evaluations.h"
#include "trainer/loop/trained_model.h"

namespace trireme {
namespace {

struct EvalOptions {
  std::string model;
  std::string data;
  std::vector<std::string> multiple_choice;
  std::string tokenizer;
  bool ema = false;
  std::int64_t seq_len = 0;
  std::int64_t samples = 0;
  std::string device = "auto";
  std::int64_t threads = 0;
};

void print_line(const std::string& what, const std::string& value) {
  fmt::print("{:<15} {}\n", what, value);
}

void print_loss(const MeasuredSet& set) {
  const std::string of = set.name.empty() ? "" : " " + set.name;
  print_line("tokens" + of, grouped(set.tokens));
  print_line("loss" + of, fmt::format("{:.6f} nats per token", set.loss));
  print_line("perplexity" + of, fmt::format("{:.4f}", std::exp(set.loss)));
  if (set.bits_per_byte) {
    print_line("bits per byte" + of, fmt::format("{:.6f}", set.bits_per_byte.value_or(0)));
  }
}

void measure_sets(const std::vector<ValidationSet>& sets, std::uint64_t samples, Inference& model) {
  const data::TokenBatch batch = model.batch();
  std::vector<MeasuredSet> all;
  for (const ValidationSet& set : sets) {
    const auto fill = [&](std::uint64_t first, std::uint64_t end) {
      return fill_batch(batch, set.source, first, end).valid;
    };
    all.push_back(measured(set, evaluate(set.source, samples,
                                         {.samples = static_cast<std::uint64_t>(batch.sequences),
                                          .fill = fill,
                                          .summed_loss = [&] { return model.evaluate(); }})));
  }
  print_loss(mean_of(sets, all));
  for (const MeasuredSet& set : all) {
    if (!set.name.empty()) print_loss(set);
  }
}

// See ChoiceScore.
void score_choices(const MultipleChoice& test, Inference& model) {
  const data::TokenBatch batch = model.batch();
  std::vector<double> log_likelihoods(test.rows.choices());
  for (std::int64_t first = 0; first < test.rows.rows(); first += batch.sequences) {
    test.rows.fill(batch, first);
    test.rows.add(model.token_losses(), first, log_likelihoods);
  }
  const ChoiceScore found = score(test.questions, log_likelihoods);
  const auto print = [](const char* rule, const ChoiceScore::Rate& rate, const char* note) {
    print_line(rule,
               fmt::format("{:.6f} +- {:.6f} ({})", rate.accuracy, rate.standard_error, note));
  };
  print_line("questions", fmt::format("{} of {}", grouped(found.questions), test.name));
  print("accuracy", found.plain, "highest log-likelihood: lm-evaluation-harness's acc");
  print("accuracy_norm", found.normalized,
        "highest log-likelihood per byte; acc_norm divides by characters");
}

// Called before the model is built, so that bad files are rejected at once.
std::vector<MultipleChoice> open_questions(const TrainedModel& trained,
                                           const EvalOptions& options) {
  if (options.multiple_choice.empty()) return {};
  const auto tokenizer = open_tokenizer_for(trained, options.tokenizer);
  std::vector<MultipleChoice> tests;
  for (const std::string& file : options.multiple_choice) {
    tests.push_back(open_multiple_choice(file, *tokenizer, trained.config.training.seq_len,
                                         /*documents=*/true));
  }
  return tests;
}

ExitCode evaluate_checkpoint(const EvalOptions& options) {
  cpu::use_threads(options.threads);
  TrainedModel trained = open_trained_model(options.model, options.ema);
  RunConfig& config = trained.config;
  if (!options.data.empty()) {
    config.data.validation = {{std::filesystem::absolute(options.data), 1}};
  } else if (!options.multiple_choice.empty()) {
    config.data.validation.clear();
    config.data.split = 0;
  }
  if (options.seq_len > 0) config.training.seq_len = options.seq_len;
  if (config.model.position == PositionKind::kLearned &&
      config.training.seq_len > config.model.max_position_embeddings) {
    throw ConfigError(say("--seq-len ", config.training.seq_len, ": the model supports only ",
                          config.model.max_position_embeddings, " positions"));
  }
  const std::vector<ValidationSet> sets = open_validation_sets(config);
  const std::vector<MultipleChoice> tests = open_questions(trained, options);
  if (sets.empty() && tests.empty()) {
    throw ConfigError(
        say(trained.folder.string(), ": its config has no data.validation; give --data PREFIX"));
  }
  Inference model({.model = config.model,
                   .device = open_device(options.device, 0),
                   .compute = compute_dtype(config.training.dtype),
                   .seq_len = config.training.seq_len,
                   .micro_batch = config.training.local_batch_size,
                   .prompt = 0});
  load_weights(trained, model);

  const std::uint64_t samples =
      options.samples > 0 ? static_cast<std::uint64_t>(options.samples) : UINT64_MAX;
  fmt::print("checkpoint      {} (step {})\n", trained.folder.string(), trained.step);
  if (options.ema) print_line("weights", "exponential average (training.ema)");
  if (!sets.empty()) measure_sets(sets, samples, model);
  for (const MultipleChoice& test : tests) score_choices(test, model);
  return ExitCode::kDone;
}

}  // namespace

Command make_eval(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "eval", "Evaluate a trained model: loss on held-out text, or multiple-choice accuracy");
  auto options = std::make_shared<EvalOptions>();
  app->add_option("RUN_OR_CHECKPOINT", options->model,
                  "A run folder (its newest checkpoint) or a checkpoint")
      ->required();
  app->add_option("--data", options->data,
                  "Token files to evaluate on (PREFIX); default: the run's data.validation, or "
                  "none with --multiple-choice");
  app->add_option(
         "--multiple-choice", options->multiple_choice,
         "HellaSwag-style .jsonl file (ctx or context, endings, label) to score; may be repeated")
      ->allow_extra_args(false);
  app->add_option("--tokenizer", options->tokenizer,
                  "Tokenizer for --multiple-choice: bytes, or a file or folder as in 'trireme "
                  "tokenize' (default: the run's)");
  app->add_flag("--ema", options->ema,
                "Evaluate the exponential average of the weights (training.ema)");
  app->add_option("--seq-len", options->seq_len,
                  "Sequence length (default: the run's training.seq_len)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  app->add_option("--samples", options->samples, "Maximum number of sequences (default: all)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  app->add_option("--device", options->device, "Device; auto uses a GPU if there is one")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app->add_option("--threads", options->threads, "CPU threads; 0 (default): one per core")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{4096}));
  return {app, [options] { return evaluate_checkpoint(*options); }};
}

}  // namespace trireme
