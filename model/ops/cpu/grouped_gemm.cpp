#include "model/ops/grouped_gemm.h"

#include <cstring>
#include <utility>
#include <vector>

#include "model/ops/cpu/gemm_engine.h"

namespace trireme::ops::cpu {
namespace {

// Calls body(group, first row, rows) for every group.
template <class Body>
void each_group(Tensor starts, std::int64_t all_rows, const Body& body) {
  const std::int32_t* const at = starts.as<std::int32_t>();
  for (std::int64_t group = 0; group + 1 < starts.count(); ++group) {
    const std::int64_t first = at[group], last = at[group + 1];
    require(0 <= first && first <= last && last <= all_rows, "grouped_gemm: group ", group,
            " has rows [", first, ", ", last, ") of ", all_rows);
    body(group, first, last - first);
  }
}

}  // namespace

void grouped_gemm(Stream&, Tensor c, Tensor a, Tensor b, Tensor starts, bool transpose_b) {
  const std::int64_t n = c.width(), k = a.width(), matrices = b.count() / (k * n);
  std::vector<MatMul> products;
  each_group(starts, c.rows(), [&](std::int64_t group, std::int64_t first, std::int64_t rows) {
    if (rows == 0) return;
    products.push_back({.shape = {.transpose_b = transpose_b,
                                  .in = a.dtype,
                                  .out = c.dtype,
                                  .m = rows,
                                  .n = n,
                                  .k = k,
                                  .lda = k},
                        .a = a.row_slice(first, rows).data,
                        .b = b.slice(group % matrices * k * n, k * n).data,
                        .c = c.row_slice(first, rows).data});
  });
  GemmEngine::instance().run_grouped(std::move(products));
}

void grouped_gemm_weight(Stream&, Tensor c, Tensor a, Tensor b, Tensor starts,
                         Accumulate accumulate) {
  const std::int64_t m = a.width(), n = b.width();
  std::vector<MatMul> products;
  each_group(starts, a.rows(), [&](std::int64_t group, std::int64_t first, std::int64_t rows) {
    const Tensor sum = c.slice(group * m * n, m * n);
    if (rows == 0) {
      if (accumulate == Accumulate::kReplace) std::memset(sum.data, 0, sum.bytes());
      return;
    }
    products.push_back({.shape = {.transpose_a = true,
                                  .accumulate = accumulate,
                                  .in = a.dtype,
                                  .out = c.dtype,
                                  .m = m,
                                  .n = n,
                                  .k = rows,
                                  .lda = m},
                        .a = a.row_slice(first, rows).data,
                        .b = b.row_slice(first, rows).data,
                        .c = sum.data});
  });
  GemmEngine::instance().run_grouped(std::move(products));
}

}  // namespace trireme::ops::cpu
