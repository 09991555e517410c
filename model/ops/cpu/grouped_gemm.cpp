#include "model/ops/grouped_gemm.h"

#include <cstring>
#include <utility>
#include <vector>

#include "model/ops/cpu/gemm_engine.h"

namespace trireme::ops::cpu {
namespace {

// Calls body(matrix, first row, rows) for every group, those of one matrix after the other.
template <class Body>
void each_group(Tensor starts, std::int64_t all_rows, std::int64_t matrices, const Body& body) {
  const std::int32_t* const at = starts.as<std::int32_t>();
  for (std::int64_t matrix = 0; matrix < matrices; ++matrix) {
    for (std::int64_t group = matrix; group + 1 < starts.count(); group += matrices) {
      const std::int64_t first = at[group], last = at[group + 1];
      require(0 <= first && first <= last && last <= all_rows, "grouped_gemm: group ", group,
              " has rows [", first, ", ", last, ") of ", all_rows);
      body(matrix, first, last - first);
    }
  }
}

}  // namespace

void grouped_gemm(Stream&, Tensor c, Tensor a, Tensor b, Tensor starts, bool transpose_b) {
  const std::int64_t n = c.width(), k = a.width(), matrices = b.count() / (k * n);
  std::vector<MatMul> products;
  each_group(starts, c.rows(), matrices,
             [&](std::int64_t matrix, std::int64_t first, std::int64_t rows) {
               if (rows == 0) return;
               products.push_back({.shape = {.transpose_b = transpose_b,
                                             .in = a.dtype,
                                             .out = c.dtype,
                                             .m = rows,
                                             .n = n,
                                             .k = k,
                                             .lda = k},
                                   .a = a.row_slice(first, rows).data,
                                   .b = b.slice(matrix * k * n, k * n).data,
                                   .c = c.row_slice(first, rows).data});
             });
  GemmEngine::instance().run_grouped(std::move(products));
}

void grouped_gemm_weight(Stream&, Tensor c, Tensor a, Tensor b, Tensor starts,
                         Accumulate accumulate) {
  const std::int64_t m = a.width(), n = b.width(), matrices = c.count() / (m * n);
  std::vector<MatMul> products;
  std::vector<bool> has_rows(static_cast<std::size_t>(matrices));
  each_group(
      starts, a.rows(), matrices, [&](std::int64_t matrix, std::int64_t first, std::int64_t rows) {
        if (rows == 0) return;
        const Tensor sum = c.slice(matrix * m * n, m * n);
        const auto at = static_cast<std::size_t>(matrix);
        products.push_back({.shape = {.transpose_a = true,
                                      .accumulate = has_rows[at] ? Accumulate::kAdd : accumulate,
                                      .in = a.dtype,
                                      .out = c.dtype,
                                      .m = m,
                                      .n = n,
                                      .k = rows,
                                      .lda = m},
                            .a = a.row_slice(first, rows).data,
                            .b = b.row_slice(first, rows).data,
                            .c = sum.data});
        has_rows[at] = true;
      });
  for (std::int64_t matrix = 0; accumulate == Accumulate::kReplace && matrix < matrices; ++matrix) {
    const Tensor sum = c.slice(matrix * m * n, m * n);
    if (!has_rows[static_cast<std::size_t>(matrix)]) std::memset(sum.data, 0, sum.bytes());
  }
  GemmEngine::instance().run_grouped(std::move(products));
}

}  // namespace trireme::ops::cpu
