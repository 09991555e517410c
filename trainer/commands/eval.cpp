#include "trainer/commands/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>

#include "model/base/human.h"
#include "model/device/cpu/threads.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/engine/evaluation/loss_by_position.h"
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
  std::int64_t stride = 0;
  std::string rope_scaling;
  bool by_position = false;
  std::int64_t position_bins = 0;  // 0: powers of two
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

void print_positions(const ValidationSet& set, const LossByPosition& losses) {
  const char* what = set.source.sequence().document_mask ? "document" : "sequence";
  const std::string of = set.name.empty() ? "" : "  " + set.name;
  fmt::print("\n{:>20}  {:>12}  {:>10}  {:>12}{}\n", say("position in ", what), "tokens", "loss",
             "perplexity", of);
  for (const LossByPosition::Bin& bin : losses.bins()) {
    const std::string positions = fmt::format("{} - {}", bin.begin, bin.end - 1);
    if (bin.tokens == 0) {
      fmt::print("{:>20}  {:>12}  {:>10}  {:>12}\n", positions, 0, "-", "-");
    } else {
      fmt::print("{:>20}  {:>12}  {:>10.6f}  {:>12.4f}\n", positions, grouped(bin.tokens),
                 bin.mean(), std::exp(bin.mean()));
    }
  }
}

void measure_sets(const std::vector<ValidationSet>& sets, const EvalOptions& options,
                  Inference& model) {
  const std::uint64_t samples =
      options.samples > 0 ? static_cast<std::uint64_t>(options.samples) : UINT64_MAX;
  const data::TokenBatch batch = model.batch();
  std::vector<MeasuredSet> all;
  std::vector<LossByPosition> by_position;
  for (const ValidationSet& set : sets) {
    const auto summed_loss = [&] {
      if (!options.by_position) return model.evaluate();
      const std::vector<double> losses = model.token_losses();
      by_position.back().add(batch, losses);
      return std::accumulate(losses.begin(), losses.end(), 0.0);
    };
    if (options.by_position) by_position.emplace_back(batch.seq_len, options.position_bins);
    const auto fill = [&](std::uint64_t first, std::uint64_t end) {
      return fill_batch(batch, set.source, first, end).valid;
    };
    all.push_back(measured(set, evaluate(set.source, samples,
                                         {.samples = static_cast<std::uint64_t>(batch.sequences),
                                          .fill = fill,
                                          .summed_loss = summed_loss})));
  }
  print_loss(mean_of(sets, all));
  for (const MeasuredSet& set : all) {
    if (!set.name.empty()) print_loss(set);
  }
  for (std::size_t i = 0; i < by_position.size(); ++i) print_positions(sets[i], by_position[i]);
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
  std::vector<Override> overrides;
  if (!options.rope_scaling.empty()) {
    overrides.push_back({"model.rope_scaling", options.rope_scaling});
  }
  TrainedModel trained = open_trained_model(options.model, options.ema, overrides);
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
  if (options.position_bins > config.training.seq_len) {
    throw ConfigError(say("--by-position ", options.position_bins,
                          ": there are only as many positions as tokens in a sequence, ",
                          config.training.seq_len));
  }
  const std::vector<ValidationSet> sets = open_validation_sets(config, options.stride);
  const std::vector<MultipleChoice> tests = open_questions(trained, options);
  if (sets.empty() && (tests.empty() || options.by_position)) {
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

  fmt::print("checkpoint      {} (step {})\n", trained.folder.string(), trained.step);
  if (options.ema) print_line("weights", "exponential average (training.ema)");
  if (!sets.empty()) measure_sets(sets, options, model);
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
  app->add_option("--stride", options->stride,
                  "Tokens from the start of one sequence to that of the next (default: the "
                  "sequence length). If it is smaller, sequences overlap, and with --by-position "
                  "each position "
                  "has about the same text")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  app->add_option("--rope-scaling", options->rope_scaling,
                  "RoPE scaling to use instead of the model's: a table as in model.rope_scaling")
      ->type_name("TABLE");
  const CLI::Option* positions =
      app->add_option("--by-position", options->position_bins,
                      "Also print the loss by position in the sequence, or in the document if the "
                      "run has data.document_mask: in N equal bins (default: in powers of two)")
          ->expected(0, 1)
          ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
          ->type_name("[N]");
  app->add_option("--samples", options->samples, "Maximum number of sequences (default: all)")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  app->add_option("--device", options->device, "Device; auto uses a GPU if there is one")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app->add_option("--threads", options->threads, "CPU threads; 0 (default): one per core")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{4096}));
  return {app, [options, positions] {
            options->by_position = positions->count() > 0;
            return evaluate_checkpoint(*options);
          }};
}

}  // namespace trireme
