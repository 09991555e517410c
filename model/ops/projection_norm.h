#pragma once
#include "model/device/stream.h"
#include "model/ops/accumulate.h"
#include "model/ops/heads.h"
#include "model/tensor/arena.h"

// RMSNorm of all query heads together, and of all key heads together (OLMo 2's QK-norm). If heads
// are sharded, every rank has a part of each row: between the ops the caller all-reduces `squares`
// and `dots` by sum. Values pass through.
//   x, y, dqkv [tokens, heads.qkv()]   squares, dots [tokens, 2] in the accumulator dtype: of
//   queries and of keys   query_gain [heads width]   key_gain [kv_heads width]
// If several ranks hold the same key heads, each for its own queries, key_share is one over their
// number: they count once in a row's sum, and the gradients of the ranks are parts of a sum.
namespace trireme::ops {

// squares = the sums of x^2 over this rank's queries, and over its keys times key_share.
void projection_squares(Stream&, Tensor squares, Tensor x, const Heads&, double key_share);

// y = x / sqrt(squares / width + epsilon) * gain; y may be x. The widths are the whole model's.
struct ProjectionNorm {
  Tensor y = {}, x = {}, squares = {}, query_gain = {}, key_gain = {};
  Heads heads = {};  // of this rank
  std::int64_t query_width = 1, key_width = 1;
  double epsilon = 1e-6;
};
void projection_norm(Stream&, const ProjectionNorm&);

// dqkv is in place: gradient of y on entry, of x on return.
struct ProjectionNormBackward {
  Tensor dqkv = {}, dquery_gain = {}, dkey_gain = {};
  Tensor x = {}, squares = {}, dots = {}, query_gain = {}, key_gain = {};
  Heads heads = {};  // of this rank
  std::int64_t query_width = 1, key_width = 1;
  double key_share = 1, epsilon = 1e-6;
  Accumulate accumulate = Accumulate::kAdd;  // for the gradients of the gains
};
// dots = the sums of dy gain x over this rank's queries, and over its keys. Sets dots alone.
void projection_dots(Stream&, const ProjectionNormBackward&);
void projection_norm_backward(Stream&, Arena& scratch, const ProjectionNormBackward&);

}  // namespace trireme::ops
