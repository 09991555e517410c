#include "trainer/engine/inference.h"

#include <algorithm>
#include <numeric>

#include "model/device/copy.h"
#include "model/ops/elementwise.h"
#include "trainer/engine/read_values.h"

namespace trireme {

Inference::Inference(const Spec& spec) : Inference(spec, planned(spec), nullptr) {}

Inference::Inference(const Spec& spec, Places places, Tally* tally)
    : spec_(spec),
      stream_(tally ? Stream(spec.device, *tally) : Stream(spec.device)),
      places_(std::move(places)),
      stage_(params_, spec.model,
             {.first_block = 0,
              .end_block = spec.model.num_hidden_layers,
              .max_positions = spec.seq_len},
             {region_, attention_}, hooks_) {
  stage_.allocate({places_.weights, places_.masters, nullptr}, spec.compute, tally != nullptr);
  masters_ = HostMirror(stream_, params_.masters());
  take_buffers();
}

// The same object on a planning stream, walked through all it will do.
Inference::Places Inference::planned(const Spec& spec) {
  Tally tally;
  const auto unbounded = [&] { return Arena::unbounded(spec.device); };
  Inference dry(spec, {unbounded(), unbounded(), unbounded(), unbounded(), unbounded()}, &tally);
  if (spec.micro_batch > 0) dry.evaluate();
  if (spec.prompt > 0) dry.decode(spec.prompt);
  const Places& needed = dry.places_;
  const auto sized = [&](const Arena& arena) { return Arena(arena.peak(), spec.device); };
  return {sized(needed.weights), sized(needed.masters), sized(needed.caches), sized(needed.keep),
          sized(needed.scratch)};
}

void Inference::take_buffers() {
  const std::int64_t tokens = std::max(spec_.micro_batch * spec_.seq_len, spec_.prompt);
  const auto take = [&](std::int64_t count, DType dtype) {
    return HostMirror(stream_, places_.caches.take({count}, dtype));
  };
  ids_ = take(tokens, DType::kI32);
  targets_ = take(tokens, DType::kI32);
  positions_ = take(tokens, DType::kI32);
  document_start_ = take(tokens, DType::kI32);
  total_ = take(1, DType::kF64);
  if (spec_.prompt > 0) caches_ = stage_.make_caches(places_.caches, spec_.seq_len);
}

void Inference::publish_masters() {
  masters_.upload(stream_);
  if (params_.has_masters()) ops::cast(stream_, params_.values(), params_.masters());
  stream_.synchronize();
}

TokenBatch Inference::batch() {
  const auto count = static_cast<std::size_t>(spec_.micro_batch * spec_.seq_len);
  const auto span = [&](const HostMirror& mirror) {
    return std::span(mirror.host().as<std::int32_t>(), count);
  };
  return {spec_.micro_batch, spec_.seq_len,    span(ids_),
          span(targets_),    span(positions_), span(document_start_)};
}

// Of each of the batch's tokens, in keep.
Tensor Inference::losses() {
  places_.keep.reset();
  Run run{stream_, places_.keep, places_.scratch};
  const std::int64_t tokens = spec_.micro_batch * spec_.seq_len;
  const auto uploaded = [&](const HostMirror& mirror) {
    mirror.upload(stream_);
    return mirror.tensor().slice(0, tokens);
  };
  return stage_.evaluate(run, {.sequence = {spec_.micro_batch, spec_.seq_len, uploaded(positions_),
                                            uploaded(document_start_)},
                               .ids = uploaded(ids_),
                               .targets = uploaded(targets_),
                               .x = {}});
}

std::vector<double> Inference::token_losses() {
  return read_values(stream_, losses());
}

double Inference::evaluate() {
  ops::sum(stream_, total_.tensor(), losses());
  total_.download(stream_);
  stream_.synchronize();
  return stream_.executes() ? *total_.host().as<double>() : 0;
}

// Of the first `count` ids and positions.
Tensor Inference::decode(std::int64_t count) {
  places_.keep.reset();
  Run run{stream_, places_.keep, places_.scratch};
  ids_.upload(stream_);
  positions_.upload(stream_);
  const Tensor logits = stage_.decode(run, ids_.tensor().slice(0, count),
                                      positions_.tensor().slice(0, count), decoded_, caches_);
  const Tensor wide = places_.keep.take(logits.shape, DType::kF32);
  if (logits.dtype == DType::kF32) {
    ops::copy(stream_, wide, logits);
  } else {
    ops::cast(stream_, wide, logits);
  }
  return wide;
}

std::vector<float> Inference::next_logits(std::span<const std::int32_t> ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  require(count > 0 && count <= spec_.prompt, "decodes 1 to ", spec_.prompt,
          " tokens at once, not ", count);
  require(decoded_ + count <= spec_.seq_len, "the cache holds ", spec_.seq_len, " tokens");
  std::copy(ids.begin(), ids.end(), ids_.host().as<std::int32_t>());
  auto* const positions = positions_.host().as<std::int32_t>();
  std::iota(positions, positions + count, static_cast<std::int32_t>(decoded_));
  const Tensor logits = decode(count);
  decoded_ += count;
  std::vector<float> values(static_cast<std::size_t>(logits.count()));
  copy_bytes(stream_, reinterpret_cast<std::byte*>(values.data()), logits.data, logits.bytes());
  stream_.synchronize();
  return values;
}

}  // namespace trireme
