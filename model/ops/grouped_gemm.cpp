#include "model/ops/grouped_gemm.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void grouped_gemm(Stream&, Tensor c, Tensor a, Tensor b, Tensor starts,
                                     bool transpose_b));
TRIREME_ON_DEVICES(void grouped_gemm_weight(Stream&, Tensor c, Tensor a, Tensor b, Tensor starts,
                                            Accumulate accumulate));

namespace {

std::int64_t groups_of(const char* what, const Tensor& starts) {
  require(starts.count() >= 2, what, " is ", starts.shape, ", which has no group");
  require_count(what, starts, starts.count(), DType::kI32);
  return starts.count() - 1;
}

// One product of all groups.
void record_groups(const Stream& stream, const Tensor& c, std::int64_t matrices, double depth,
                   std::size_t element, std::int64_t read, int result_passes, bool transpose_a) {
  if (stream.executes()) return;
  const auto rows = static_cast<double>(c.rows()), columns = static_cast<double>(c.width());
  stream.record({.kind = PlannedOp::Kind::kMatmul,
                 .name = kGroupedProduct,
                 .element = element,
                 .rows = rows,
                 .columns = columns,
                 .depth = depth,
                 .groups = static_cast<double>(matrices),
                 .transpose_a = transpose_a,
                 .flops = 2 * rows * columns * depth,
                 .bytes = static_cast<double>(read) * static_cast<double>(element),
                 .result_bytes = static_cast<double>(c.bytes()) * result_passes});
}

}  // namespace

void grouped_gemm(Stream& stream, Tensor c, Tensor a, Tensor b, Tensor starts, bool transpose_b) {
  const std::int64_t groups = groups_of("grouped_gemm: starts", starts);
  const std::int64_t rows = c.rows(), n = c.width(), k = a.width();
  if (c.count() == 0) return;
  require(k > 0, "grouped_gemm: a ", a.shape, " has no columns");
  require_count("grouped_gemm: a", a, rows * k, c.dtype);
  const std::int64_t matrices = b.count() / (k * n);
  require(matrices > 0 && groups % matrices == 0, "grouped_gemm: b ", b.shape, " is ", matrices,
          " matrices for ", groups, " groups");
  require_count("grouped_gemm: b", b, matrices * k * n, c.dtype);
  require(b.width() == (transpose_b ? k : n), "grouped_gemm: b ", b.shape,
          transpose_b ? " transposed" : "", " does not follow a ", a.shape, " into c ", c.shape);
  record_groups(stream, c, matrices, static_cast<double>(k), size_of(a.dtype),
                a.count() + b.count(), 1, /*transpose_a=*/false);
  TRIREME_DISPATCH(stream, grouped_gemm(stream, c, a, b, starts, transpose_b));
}

void grouped_gemm_weight(Stream& stream, Tensor c, Tensor a, Tensor b, Tensor starts,
                         Accumulate accumulate) {
  const std::int64_t groups = groups_of("grouped_gemm_weight: starts", starts);
  const std::int64_t m = a.width(), n = b.width();
  if (c.count() == 0) return;
  const std::int64_t matrices = c.count() / (m * n);
  require(matrices > 0 && groups % matrices == 0, "grouped_gemm_weight: c ", c.shape, " is ",
          matrices, " matrices for ", groups, " groups");
  require_count("grouped_gemm_weight: c", c, matrices * m * n, accumulator_of(a.dtype));
  require(c.width() == n, "grouped_gemm_weight: c ", c.shape, " has not b's ", n, " columns");
  require_count("grouped_gemm_weight: b", b, a.rows() * n, a.dtype);
  const double depth = static_cast<double>(a.rows()) / static_cast<double>(matrices);
  record_groups(stream, c, matrices, depth, size_of(a.dtype), a.count() + b.count(),
                accumulate == Accumulate::kAdd ? 2 : 1, /*transpose_a=*/true);
  TRIREME_DISPATCH(stream, grouped_gemm_weight(stream, c, a, b, starts, accumulate));
}

}  // namespace trireme::ops
