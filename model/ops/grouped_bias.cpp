#include "model/ops/grouped_bias.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void grouped_bias(Stream&, Tensor y, Tensor bias, Tensor starts));
TRIREME_ON_DEVICES(void grouped_bias_backward(Stream&, Tensor dbias, Tensor dy,
                                              const RowWeights& weights, Tensor starts,
                                              Accumulate accumulate));
TRIREME_ON_DEVICES(void grouped_bias_dots(Stream&, Tensor dweights, Tensor dy, Tensor bias,
                                          Tensor pairs, Tensor starts));

namespace {

// That of all groups.
std::int64_t bias_count(const char* op, const Tensor& rows, const Tensor& starts) {
  require(starts.dtype == DType::kI32 && starts.count() > 1, op, ": starts is ",
          name_of(starts.dtype), " ", starts.shape);
  return (starts.count() - 1) * rows.width();
}

}  // namespace

void grouped_bias(Stream& stream, Tensor y, Tensor bias, Tensor starts) {
  const std::int64_t biases = starts ? bias_count("grouped_bias", y, starts) : y.width();
  require_count("grouped_bias: bias", bias, biases, y.dtype);
  if (y.count() == 0) return;
  record_memory(stream, "grouped_bias", {y, y, bias});
  TRIREME_DISPATCH(stream, grouped_bias(stream, y, bias, starts));
}

void grouped_bias_backward(Stream& stream, Tensor dbias, Tensor dy, const RowWeights& weights,
                           Tensor starts, Accumulate accumulate) {
  const DType sums = accumulator_of(dy.dtype);
  require_count("grouped_bias_backward: dbias", dbias,
                bias_count("grouped_bias_backward", dy, starts), sums);
  if (weights.weights) {
    require_count("grouped_bias_backward: weights", weights.weights, weights.weights.count(), sums);
    require_count("grouped_bias_backward: pairs", weights.pairs, dy.rows(), DType::kI32);
  }
  if (dbias.count() == 0) return;
  const Tensor before = accumulate == Accumulate::kAdd ? dbias : Tensor{};
  record_memory(stream, "grouped_bias_backward",
                {dy, weights.weights, weights.pairs, dbias, before});
  TRIREME_DISPATCH(stream, grouped_bias_backward(stream, dbias, dy, weights, starts, accumulate));
}

void grouped_bias_dots(Stream& stream, Tensor dweights, Tensor dy, Tensor bias, Tensor pairs,
                       Tensor starts) {
  require_count("grouped_bias_dots: bias", bias, bias_count("grouped_bias_dots", dy, starts),
                dy.dtype);
  require_count("grouped_bias_dots: pairs", pairs, dy.rows(), DType::kI32);
  require_count("grouped_bias_dots: dweights", dweights, dweights.count(),
                accumulator_of(dy.dtype));
  if (dy.count() == 0) return;
  record_memory(stream, "grouped_bias_dots", {dy, bias, pairs, dweights, dweights});
  TRIREME_DISPATCH(stream, grouped_bias_dots(stream, dweights, dy, bias, pairs, starts));
}

}  // namespace trireme::ops
