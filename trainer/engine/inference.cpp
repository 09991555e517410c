#include "trainer/engine/inference.h"

#include <algorithm>

#include "model/ops/elementwise.h"
#include "trainer/engine/step_losses.h"

namespace trireme {

namespace {

// A longer prompt would need more memory and be no faster.
constexpr std::int64_t kTokensAtOnce = 1024;

std::int64_t at_once(const Inference::Spec& spec) {
  return std::min(spec.prompt, kTokensAtOnce);
}

}  // namespace

Inference::Inference(const Spec& spec) : Inference(spec, planned(spec), nullptr) {}

Inference::Inference(const Spec& spec, Places memory, Tally* tally)
    : spec_(spec),
      stream_(tally ? Stream(spec.device, *tally) : Stream(spec.device)),
      places_(std::move(memory)),
      stage_(params_, spec.model,
             {.first_block = 0,
              .end_block = spec.model.num_hidden_layers,
              .max_positions = spec.seq_len},
             {region_, attention_}, hooks_) {
  stage_.allocate({places_.weights, places_.masters, nullptr}, spec.compute, tally != nullptr);
  masters_ = HostMirror(stream_, params_.masters());
  if (spec.micro_batch > 0) {
    inputs_.emplace(stream_, places_.data,
                    StepInputs::Size{.sequences = spec.micro_batch, .seq_len = spec.seq_len});
    total_ = HostMirror(stream_, places_.data.take({1}, DType::kF64));
  }
  if (spec.prompt > 0) {
    decoder_.emplace(
        stream_, stage_,
        Decoder::Size{
            .vocab = spec.model.vocab_size, .capacity = spec.seq_len, .at_once = at_once(spec)},
        places_.data, places_.scratch);
  }
}

Inference::Places Inference::planned(const Spec& spec) {
  Tally tally;
  const auto unbounded = [&] { return Arena::unbounded(spec.device); };
  Inference dry(spec, {unbounded(), unbounded(), unbounded(), unbounded(), unbounded()}, &tally);
  if (spec.micro_batch > 0) dry.evaluate();
  if (spec.prompt > 0) {
    dry.next_logits(std::vector<std::int32_t>(at_once(spec)));
  }
  const Places& needed = dry.places_;
  const auto sized = [&](const Arena& arena) { return Arena(arena.peak(), spec.device); };
  return {sized(needed.weights), sized(needed.masters), sized(needed.data),
          sized(needed.activations), sized(needed.scratch)};
}

void Inference::publish_masters() {
  masters_.upload(stream_);
  if (params_.has_masters()) ops::cast(stream_, params_.values(), params_.masters());
  params_.fill_buffers(stream_);
  stream_.synchronize();
}

Tensor Inference::losses() {
  places_.activations.reset();
  ExecContext ctx{stream_, places_.activations, places_.scratch};
  inputs_->upload(stream_, 1);
  return stage_.evaluate(ctx, inputs_->micro_batch(0), {});
}

std::vector<double> Inference::token_losses() {
  return read_losses(stream_, losses());
}

double Inference::evaluate() {
  ops::sum(stream_, total_.tensor(), losses());
  total_.download(stream_);
  stream_.synchronize();
  return stream_.executes() ? *total_.host().as<double>() : 0;
}

std::vector<float> Inference::next_logits(std::span<const std::int32_t> ids) {
  return decoder_->next_logits(ids);
}

}  // namespace trireme
