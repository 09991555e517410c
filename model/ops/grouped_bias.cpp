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

std::int64_t groups_in(const char* op, const Tensor& starts) {
  require(starts.dtype == DType::kI32 && starts.count() > 1, op, ": starts is ",
          name_of(starts.dtype), " ", starts.shape);
  return starts.count() - 1;
}

// Biases that repeat for all groups.
void require_biases(const char* op, const Tensor& bias, const Tensor& rows, const Tensor& starts) {
  const std::int64_t groups = starts ? groups_in(op, starts) : 1;
  const std::int64_t biases = bias.count() / rows.width();
  require(biases > 0 && groups % biases == 0, op, ": bias ", bias.shape, " for ", groups,
          " groups of rows ", rows.shape);
  require_count(op, bias, biases * rows.width(), rows.dtype);
}

}  // namespace

void grouped_bias(Stream& stream, Tensor y, Tensor bias, Tensor starts) {
  if (y.count() == 0) return;
  require_biases("grouped_bias", bias, y, starts);
  record_memory(stream, "grouped_bias", {y, y, bias});
  TRIREME_DISPATCH(stream, grouped_bias(stream, y, bias, starts));
}

void grouped_bias_backward(Stream& stream, Tensor dbias, Tensor dy, const RowWeights& weights,
                           Tensor starts, Accumulate accumulate, std::int64_t calls) {
  const DType sums = accumulator_of(dy.dtype);
  require_count("grouped_bias_backward: dbias", dbias,
                groups_in("grouped_bias_backward", starts) * dy.width(), sums);
  if (weights.weights) {
    const std::int64_t pairs = weights.pairs ? weights.weights.count() : dy.rows();
    require_count("grouped_bias_backward: weights", weights.weights, pairs, sums);
    if (weights.pairs) {
      require_count("grouped_bias_backward: pairs", weights.pairs, dy.rows(), DType::kI32);
    }
  }
  if (dbias.count() == 0) return;
  const Tensor before = accumulate == Accumulate::kAdd ? dbias : Tensor{};
  const auto share = [&](const Tensor& of) { return of ? of.slice(0, of.count() / calls) : of; };
  record_memory(stream, "grouped_bias_backward",
                {share(dy), share(weights.weights), share(weights.pairs), dbias, before});
  TRIREME_DISPATCH(stream, grouped_bias_backward(stream, dbias, dy, weights, starts, accumulate));
}

void grouped_bias_dots(Stream& stream, Tensor dweights, Tensor dy, Tensor bias, Tensor pairs,
                       Tensor starts) {
  if (dy.count() == 0) return;
  require_biases("grouped_bias_dots", bias, dy, starts);
  if (pairs) require_count("grouped_bias_dots: pairs", pairs, dy.rows(), DType::kI32);
  require_count("grouped_bias_dots: dweights", dweights, pairs ? dweights.count() : dy.rows(),
                accumulator_of(dy.dtype));
  record_memory(stream, "grouped_bias_dots", {dy, bias, pairs, dweights, dweights});
  TRIREME_DISPATCH(stream, grouped_bias_dots(stream, dweights, dy, bias, pairs, starts));
}

}  // namespace trireme::ops
