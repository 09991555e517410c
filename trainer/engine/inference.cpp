#include "trainer/engine/inference.h"

#include <algorithm>
#include <numeric>

#include "model/ops/elementwise.h"

namespace trireme {

Inference::Inference(const Spec& spec) : Inference(spec, planned(spec), nullptr) {}

Inference::Inference(const Spec& spec, Places places, Tally* tally)
    : spec_(spec),
      stream_(tally ? Stream({}, *tally) : Stream()),
      places_(std::move(places)),
      stage_(params_, spec.model,
             {.first_block = 0,
              .end_block = spec.model.num_hidden_layers,
              .max_positions = spec.seq_len},
             {region_, attention_}, hooks_) {
  stage_.allocate({places_.weights, places_.masters, nullptr}, spec.compute, tally != nullptr);
  take_buffers();
}

// The same object on a planning stream, walked through all it will do.
Inference::Places Inference::planned(const Spec& spec) {
  Tally tally;
  Inference dry(spec,
                {Arena::unbounded(), Arena::unbounded(), Arena::unbounded(), Arena::unbounded(),
                 Arena::unbounded()},
                &tally);
  if (spec.micro_batch > 0) dry.evaluate();
  if (spec.prompt > 0)
    dry.decode(dry.ids_.slice(0, spec.prompt), dry.positions_.slice(0, spec.prompt));
  const Places& needed = dry.places_;
  return {Arena(needed.weights.peak()), Arena(needed.masters.peak()), Arena(needed.caches.peak()),
          Arena(needed.keep.peak()), Arena(needed.scratch.peak())};
}

void Inference::take_buffers() {
  const std::int64_t tokens = std::max(spec_.micro_batch * spec_.seq_len, spec_.prompt);
  ids_ = places_.caches.take({tokens}, DType::kI32);
  targets_ = places_.caches.take({tokens}, DType::kI32);
  positions_ = places_.caches.take({tokens}, DType::kI32);
  document_start_ = places_.caches.take({tokens}, DType::kI32);
  total_ = places_.caches.take({1}, DType::kF64);
  if (spec_.prompt > 0) caches_ = stage_.make_caches(places_.caches, spec_.seq_len);
}

void Inference::publish_masters() {
  if (!params_.has_masters()) return;
  ops::cast(stream_, params_.values(), params_.masters());
}

TokenBatch Inference::batch() {
  const auto count = static_cast<std::size_t>(spec_.micro_batch * spec_.seq_len);
  const auto span = [&](const Tensor& t) { return std::span(t.as<std::int32_t>(), count); };
  return {spec_.micro_batch, spec_.seq_len,    span(ids_),
          span(targets_),    span(positions_), span(document_start_)};
}

double Inference::evaluate() {
  places_.keep.reset();
  Run run{stream_, places_.keep, places_.scratch};
  const Tensor loss = stage_.evaluate(
      run, {.sequence = {spec_.micro_batch, spec_.seq_len, positions_, document_start_},
            .ids = ids_.slice(0, spec_.micro_batch * spec_.seq_len),
            .targets = targets_.slice(0, spec_.micro_batch * spec_.seq_len),
            .x = {},
            .scale = 1});
  ops::sum(stream_, total_, loss);
  stream_.synchronize();
  return stream_.executes() ? *total_.as<double>() : 0;
}

Tensor Inference::decode(Tensor ids, Tensor positions) {
  places_.keep.reset();
  Run run{stream_, places_.keep, places_.scratch};
  const Tensor logits = stage_.decode(run, ids, positions, decoded_, caches_);
  const Tensor wide = places_.keep.take(logits.shape, DType::kF32);
  if (logits.dtype == DType::kF32) {
    ops::copy(stream_, wide, logits);
  } else {
    ops::cast(stream_, wide, logits);
  }
  stream_.synchronize();
  return wide;
}

std::vector<float> Inference::next_logits(std::span<const std::int32_t> ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  require(count > 0 && count <= spec_.prompt, "decodes 1 to ", spec_.prompt,
          " tokens at once, not ", count);
  require(decoded_ + count <= spec_.seq_len, "the cache holds ", spec_.seq_len, " tokens");
  std::copy(ids.begin(), ids.end(), ids_.as<std::int32_t>());
  std::iota(positions_.as<std::int32_t>(), positions_.as<std::int32_t>() + count,
            static_cast<std::int32_t>(decoded_));
  const Tensor logits = decode(ids_.slice(0, count), positions_.slice(0, count));
  decoded_ += count;
  return {logits.as<float>(), logits.as<float>() + logits.count()};
}

}  // namespace trireme
