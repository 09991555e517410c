#include "trainer/loop/evaluations.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "model/tensor/host_tensor.h"
#include "trainer/config/value_text.h"
#include "trainer/engine/data_feed.h"
#include "trainer/loop/trained_model.h"
#include "trainer/telemetry/clock.h"

namespace trireme {

std::vector<ValidationSet> open_validation_sets(const RunConfig& config, std::int64_t stride) {
  std::vector<std::string> names;
  for (const DataSource& source : config.data.validation) {
    if (std::find(names.begin(), names.end(), source.name) == names.end()) {
      names.push_back(source.name);
    }
  }
  std::vector<ValidationSet> sets;
  if (names.empty()) {
    if (auto kept = open_validation_data(config, stride)) sets.push_back({"", 1, std::move(*kept)});
    return sets;
  }
  for (const std::string& name : names) {
    RunConfig of_set = config;
    std::erase_if(of_set.data.validation,
                  [&](const DataSource& source) { return source.name != name; });
    double weight = 0;
    for (const DataSource& source : of_set.data.validation) weight += source.weight;
    sets.push_back({name, weight, open_validation_data(of_set, stride).value()});
  }
  return sets;
}

MeasuredSet measured(const ValidationSet& set, const Evaluation& evaluation) {
  return {set.name, evaluation.loss, bits_per_byte(evaluation.loss, set.source),
          evaluation.valid_tokens};
}

MeasuredSet mean_of(const std::vector<ValidationSet>& sets,
                    std::span<const MeasuredSet> measurements) {
  MeasuredSet mean;
  if (sets.size() == 1) {
    mean = measurements.front();
    mean.name.clear();
    return mean;
  }
  double weights = 0, bytes = 0;
  bool knows_bytes = true;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const double weight = sets[i].weight, per_token = sets[i].source.bytes_per_token();
    weights += weight;
    mean.loss += weight * measurements[i].loss;
    mean.tokens += measurements[i].tokens;
    bytes += weight * per_token;
    knows_bytes = knows_bytes && per_token > 0;
  }
  if (knows_bytes) mean.bits_per_byte = mean.loss / std::numbers::ln2 / bytes;
  mean.loss /= weights;
  return mean;
}

Evaluations::Evaluations(const RunConfig& config, std::int64_t total_steps)
    : config_(config), total_steps_(total_steps) {
  const ValidationConfig& how = config.validation;
  sets_ = open_validation_sets(config);
  if (how.multiple_choice.empty() && how.sample_freq == 0) return;
  open_tokenizer();
  for (const std::string& file : how.multiple_choice) {
    tests_.push_back(open_multiple_choice(file, *tokenizer_, config.training.seq_len,
                                          config.data.document_mask));
  }
  if (how.sample_freq == 0) return;
  sample_ = Generation{prompt_ids(*tokenizer_, how.sample_prompt),
                       how.sample_tokens,
                       {.temperature = 0.8, .seed = static_cast<std::uint64_t>(config.job.seed)}};
  const auto length = static_cast<std::int64_t>(sample_->prompt.size()) + how.sample_tokens;
  if (length > config.training.seq_len) {
    throw ConfigError(say("validation.sample_prompt has ", sample_->prompt.size(),
                          " tokens, and with validation.sample_tokens = ", how.sample_tokens,
                          " more than training.seq_len = ", config.training.seq_len));
  }
}

void Evaluations::open_tokenizer() {
  const auto name = tokenizer_of(config_);
  if (!name) {
    throw DataError(
        say("validation.multiple_choice and validation.sample_freq require a tokenizer, but "
            "neither data.tokenizer nor the training data name one"));
  }
  tokenizer_ = data::open_tokenizer(*name);
  if (tokenizer_->vocab_size() > config_.model.vocab_size) {
    throw DataError(say("tokenizer ", *name, " has ", tokenizer_->vocab_size(),
                        " ids, and model.vocab_size is ", config_.model.vocab_size));
  }
  const std::string trained = tokenizer_hash_of(config_);
  if (!trained.empty() && trained != tokenizer_->hash()) {
    throw DataError(say("tokenizer ", *name, " (", tokenizer_->hash(),
                        ") is not the one of the training data (", trained, ")"));
  }
}

void Evaluations::after_step(const Target& target, StepMetrics& metrics) const {
  if (is_due(metrics.step, config_.validation.freq)) {
    target.engine.take_micro_batches(target.engine.spec().micro_batches);  // of a full step
    if (!sets_.empty()) validate(target, metrics);
    for (const MultipleChoice& test : tests_) answer_questions(target, test, metrics);
  }
  if (sample_ && is_due(metrics.step, config_.validation.sample_freq)) sample(target, metrics.step);
}

void Evaluations::validate(const Target& target, StepMetrics& metrics) const {
  const double start = seconds_now();
  const std::int64_t batch = config_.training.global_batch_size;
  const auto samples = static_cast<std::uint64_t>(config_.validation.steps * batch);
  std::vector<MeasuredSet> all;
  for (const ValidationSet& set : sets_) {
    const auto fill = [&](std::uint64_t first, std::uint64_t end) {
      return fill_step(target.engine, target.groups, set.source, first, end).valid;
    };
    all.push_back(measured(
        set,
        evaluate(set.source, samples,
                 {.samples = static_cast<std::uint64_t>(batch), .fill = fill, .summed_loss = [&] {
                    return target.engine.evaluate();
                  }})));
  }
  const MeasuredSet mean = mean_of(sets_, all);
  metrics.validation_loss = mean.loss;
  metrics.validation_bits_per_byte = mean.bits_per_byte;
  for (const MeasuredSet& set : all) {
    if (!set.name.empty()) metrics.validation_sets.push_back(set);
  }
  target.log.validation(metrics, mean.tokens, seconds_now() - start);
}

void Evaluations::answer_questions(const Target& target, const MultipleChoice& test,
                                   StepMetrics& metrics) const {
  const double start = seconds_now();
  Engine& engine = target.engine;
  const TrainingConfig& training = config_.training;
  const std::int64_t size = training.local_batch_size, tokens = size * training.seq_len;
  std::vector<double> log_likelihoods(test.rows.choices());
  for (std::int64_t first = 0; first < test.rows.rows();
       first += config_.training.global_batch_size) {
    const auto row = [&](std::int64_t own) {
      return first + engine.micro_batches().number(engine.data_rank(), own) * size;
    };
    for (std::int64_t own = 0; own < engine.spec().micro_batches; ++own) {
      test.rows.fill(engine.batch().part(own * size, size), row(own));
    }
    const std::vector<double> losses = engine.token_losses();
    // Tensor-parallel ranks have the same losses.
    if (losses.empty() || target.groups.tensor->rank() != 0) continue;
    for (std::int64_t own = 0; own < engine.spec().micro_batches; ++own) {
      test.rows.add(std::span(losses).subspan(own * tokens, tokens), row(own), log_likelihoods);
    }
  }
  Stream stream;
  target.groups.all->all_reduce(stream, host_tensor(std::span(log_likelihoods)), Reduce::kSum);
  const ChoiceScore found = score(test.questions, log_likelihoods);
  metrics.more.emplace_back("accuracy/" + test.name, found.plain.accuracy);
  metrics.more.emplace_back("accuracy_norm/" + test.name, found.normalized.accuracy);
  const double seconds = seconds_now() - start;
  target.log.note(fmt::format(
      "step {} | {}: accuracy {:.4f} +- {:.4f} | by bytes {:.4f} +- {:.4f} | {} questions | took "
      "{:.1f} s",
      metrics.step, test.name, found.plain.accuracy, found.plain.standard_error,
      found.normalized.accuracy, found.normalized.standard_error, found.questions, seconds));
  target.log.event("multiple_choice", metrics.step,
                   {{"name", test.name},
                    {"accuracy", found.plain.accuracy},
                    {"accuracy_stderr", found.plain.standard_error},
                    {"accuracy_norm", found.normalized.accuracy},
                    {"accuracy_norm_stderr", found.normalized.standard_error},
                    {"questions", found.questions},
                    {"seconds", seconds}});
}

// On rank 0; the others continue to the next collective.
void Evaluations::sample(const Target& target, std::int64_t step) const {
  target.engine.model().finish_publishing();
  if (target.groups.all->rank() != 0) return;
  const double start = seconds_now();
  Decoder& decoder = target.engine.decoder();
  decoder.restart();
  const NextLogits next_logits = [&](std::span<const std::int32_t> ids) {
    std::vector<float> logits;
    for (const std::int32_t id : ids) logits = decoder.next_logits(id);
    return logits;
  };
  const std::string text = tokenizer_->decode(generate(*sample_, *tokenizer_, next_logits));
  target.log.note(
      fmt::format("step {} | sample: {}", step, to_toml(config_.validation.sample_prompt + text)));
  target.log.event("sample", step,
                   {{"prompt", config_.validation.sample_prompt},
                    {"text", text},
                    {"seconds", seconds_now() - start}});
}

}  // namespace trireme
