#include "trainer/commands/eval.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "model/device/cpu/threads.h"
#include "trainer/engine/engine_spec.h"
#include "trainer/loop/data_feed.h"
#include "trainer/loop/trained_model.h"
#include "trainer/telemetry/human.h"

namespace trireme {
namespace {

struct Options {
  std::string model;
  std::string data;
  std::int64_t seq_len = 0;
  std::int64_t samples = 0;
  std::string device = "auto";
  std::int64_t threads = 0;
};

ExitCode evaluate_checkpoint(const Options& options) {
  cpu::use_threads(options.threads);
  TrainedModel trained = open_trained_model(options.model);
  RunConfig& config = trained.config;
  if (!options.data.empty()) {
    config.data.validation = {{std::filesystem::absolute(options.data), 1}};
  }
  if (options.seq_len > 0) config.training.seq_len = options.seq_len;
  if (config.model.position == PositionKind::kLearned &&
      config.training.seq_len > config.model.max_position_embeddings) {
    throw ConfigError(say("--seq-len ", config.training.seq_len, ": the model has learned only ",
                          config.model.max_position_embeddings, " positions"));
  }
  const auto source = open_validation_data(config);
  if (!source) {
    throw ConfigError(
        say(trained.folder.string(), ": its config names no validation data; give --data PREFIX"));
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
  const TokenBatch batch = model.batch();
  const Evaluation result =
      evaluate(*source, samples,
               {.samples = static_cast<std::uint64_t>(batch.sequences),
                .fill = [&](std::uint64_t first,
                            std::uint64_t end) { return fill_batch(batch, *source, first, end); },
                .summed_loss = [&] { return model.evaluate(); }});
  const auto bits = bits_per_byte(result.loss, *source);
  fmt::print("checkpoint      {} (step {})\n", trained.folder.string(), trained.step);
  fmt::print("tokens          {}\n", grouped(result.valid_tokens));
  fmt::print("loss            {:.6f} nats per token\n", result.loss);
  fmt::print("perplexity      {:.4f}\n", std::exp(result.loss));
  if (bits) fmt::print("bits per byte   {:.6f}\n", *bits);
  return ExitCode::kDone;
}

}  // namespace

Command make_eval(CLI::App& program) {
  CLI::App* app = program.add_subcommand("eval", "Loss of a trained model on held-out text");
  auto options = std::make_shared<Options>();
  app->add_option("RUN_OR_CHECKPOINT", options->model,
                  "A run folder (its newest checkpoint) or a checkpoint")
      ->required();
  app->add_option("--data", options->data,
                  "PREFIX of a token file; default: the run's validation data");
  app->add_option("--seq-len", options->seq_len, "Tokens a sequence; default: as trained")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24));
  app->add_option("--samples", options->samples, "Sequences, at most; default: all")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  app->add_option("--device", options->device, "auto takes a GPU where there is one")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app->add_option("--threads", options->threads, "0: every core")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{4096}));
  return {app, [options] { return evaluate_checkpoint(*options); }};
}

}  // namespace trireme
