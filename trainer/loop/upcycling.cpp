#include "trainer/loop/upcycling.h"

#include <algorithm>
#include <map>
#include <string>
#include <variant>

#include "checkpoint/format/names.h"
#include "model/base/philox.h"
#include "model/device/stream.h"
#include "model/ops/dispatch.h"
#include "model/ops/draw.h"
#include "model/params/init.h"
#include "model/stage/layer_config.h"
#include "trainer/config/option.h"

namespace trireme {
namespace {

using checkpoint::Piece;

constexpr std::string_view kExperts = ".experts.", kRouter = ".router.weight";

bool is_router(std::string_view tensor) {
  return tensor.ends_with(kRouter);
}

bool is_of_expert(std::string_view tensor) {
  return tensor.find(kExperts) != std::string_view::npos;
}

// "layers.0.mlp.gate.weight" of "layers.0.mlp.experts.5.gate.weight".
std::string dense_name(std::string tensor) {
  const std::size_t from = tensor.find(kExperts);
  if (from == std::string::npos) return tensor;
  return tensor.erase(from, tensor.find('.', from + kExperts.size()) - from);
}

void copy_value(const Slot& to, const Slot& from) {
  std::visit([&](auto* value) { *value = *std::get<decltype(value)>(from); }, to);
}

// `sparse` with the config keys of `dense`, except its type.
ModelConfig with_keys_of(const ModelConfig& dense, const ModelConfig& sparse) {
  RunConfig here, there;
  here.model = sparse;
  there.model = dense;
  for (const Option& option : options()) {
    const bool is_copied = option.section() == "model" && option.key != "model.model_type";
    if (is_copied) copy_value(option.slot(here), option.slot(there));
  }
  if (!dense.qk_norm) here.model.qk_norm_by_head = dense.qk_norm_by_head;
  return here.model;
}

ops::Strided place_of(const Piece& piece) {
  const int last = piece.shape.rank() - 1;
  const std::int64_t row = last == 0 ? 0 : piece.box.from[0];
  return {.run = piece.box.extent[last],
          .stride = piece.shape[last],
          .start = row * piece.shape[last] + piece.box.from[last]};
}

void add_noise(const Piece& piece, const ops::NormalDraw& draw) {
  constexpr std::int64_t kAtOnce = 1 << 14;
  const std::int64_t count = piece.box.extent.count();
  std::vector<float> noise(static_cast<std::size_t>(std::min(kAtOnce, count)));
  Stream stream;
  for (std::int64_t at = 0; at < count; at += kAtOnce) {
    const std::int64_t n = std::min(kAtOnce, count - at);
    ops::NormalDraw part = draw;
    part.where.first = at;
    ops::draw_normal(
        stream, {reinterpret_cast<std::byte*>(noise.data()), DType::kF32, {n}, Device{}}, part);
    stream.synchronize();
    with_float(piece.dtype, [&]<class T>(T) {
      T* const to = reinterpret_cast<T*>(piece.data) + at;
      for (std::int64_t i = 0; i < n; ++i) {
        to[i] = static_cast<T>(static_cast<Accumulator<T>>(to[i]) + noise[i]);
      }
    });
  }
}

}  // namespace

bool needs_upcycling(const ModelConfig& dense, const ModelConfig& sparse) {
  return dense.num_experts == 0 && sparse.num_experts > 0;
}

bool same_family_parts(const ModelConfig& sparse, const ModelConfig& dense) {
  ModelConfig here = with_keys_of(dense, sparse);
  const bool same_layers =
      layer_configs(here) == layer_configs(dense) && rope_configs(here) == rope_configs(dense);
  here.model_type = dense.model_type;
  return same_layers && here == dense;
}

ModelConfig without_experts(const ModelConfig& sparse, const ModelConfig& dense) {
  ModelConfig model = sparse;
  model.model_type = dense.model_type;
  if (layers_with_experts(sparse) == sparse.num_hidden_layers) {
    model.intermediate_size = sparse.moe_intermediate_size;
  }
  model.num_experts = dense.num_experts;
  model.num_experts_per_tok = dense.num_experts_per_tok;
  model.moe_intermediate_size = dense.moe_intermediate_size;
  model.norm_topk_prob = dense.norm_topk_prob;
  model.decoder_sparse_step = dense.decoder_sparse_step;
  model.mlp_only_layers = dense.mlp_only_layers;
  model.router_aux_loss_coef = dense.router_aux_loss_coef;
  model.router_z_loss_coef = dense.router_z_loss_coef;
  return model;
}

std::vector<Piece> dense_pieces(std::span<const Piece> pieces) {
  std::vector<Piece> dense;
  for (const Piece& piece : pieces) {
    if (is_router(piece.tensor)) continue;
    dense.push_back(piece);
    dense.back().tensor = dense_name(piece.tensor);
  }
  return dense;
}

void finish_upcycling(const ParamStore& params, std::span<const Piece> pieces,
                      const UpcyclingDraws& draws) {
  std::map<std::string, const ParamSpec*> specs;
  for (const ParamShard& shard : params.shards()) {
    const ParamSpec& spec = shard.param->spec;
    specs.emplace(std::string(checkpoint::kWeightsPrefix) + spec.name, &spec);
  }
  Stream stream;
  for (const Piece& piece : pieces) {
    const ParamSpec& spec = *specs.at(piece.tensor);
    if (is_router(piece.tensor)) {
      const Tensor out{piece.data, piece.dtype, {piece.box.extent.count()}, Device{}};
      ElementInit(spec.init, spec.init_scale, draws.seed, spec.name)
          .fill(stream, out, place_of(piece));
    } else if (is_of_expert(piece.tensor) && draws.noise > 0) {
      add_noise(piece, {.key = random_key(draws.seed, "upcycle/" + spec.name),
                        .scale = draws.noise * spec.init_scale,
                        .where = place_of(piece)});
    }
  }
  stream.synchronize();
}

}  // namespace trireme
