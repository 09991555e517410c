#include "model/ops/grouped_gemm.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

// Number of rows of each group, followed by `beyond` rows of no group.
struct Groups {
  std::vector<std::int64_t> sizes;
  std::int64_t beyond = 0;

  std::int64_t count() const { return std::ssize(sizes); }
  std::int64_t used() const {
    std::int64_t sum = 0;
    for (const std::int64_t size : sizes) sum += size;
    return sum;
  }
  std::int64_t rows() const { return used() + beyond; }
  Held starts(Stream& stream) const {
    Values ends{0};
    for (const std::int64_t size : sizes) ends.push_back(ends.back() + static_cast<double>(size));
    return {stream, {count() + 1}, DType::kI32, ends};
  }
  // Calls body(group, row) for every row of a group.
  template <class Body>
  void each(const Body& body) const {
    std::int64_t row = 0;
    for (std::int64_t group = 0; group < count(); ++group) {
      for (std::int64_t i = 0; i < sizes[static_cast<std::size_t>(group)]; ++i) body(group, row++);
    }
  }
};

Groups many_groups() {
  Groups groups;
  for (std::int64_t i = 0; i < 70; ++i) groups.sizes.push_back(i == 40 ? 130 : i % 3);
  return groups;
}
const Groups kGroups[] = {
    {{5, 0, 70, 1, 0, 33}}, {{0, 0, 150, 0}, 3}, {{140}}, {{0, 0}, 2}, many_groups()};
constexpr std::int64_t kExtents[][2] = {{1, 1}, {7, 13}, {64, 40}, {37, 144}, {130, 24}};
// For kernels of whole warpgroups: 16 bits, multiples of 64, and more steps than they hold at once.
const Groups kLongGroups{{70, 0, 260}, 3};
constexpr std::int64_t kWideExtents[][2] = {{320, 192}, {64, 128}, {128, 200}};

// Calls body(groups, k, n) for all of them.
template <class Body>
void each_shape(DType dtype, const Body& body) {
  for (const Groups& groups : kGroups) {
    for (const auto& [k, n] : kExtents) body(groups, k, n);
  }
  if (size_of(dtype) != 2) return;
  for (const auto& [k, n] : kWideExtents) body(kLongGroups, k, n);
}

Values product(const Groups& groups, const Values& a, const Values& b, std::int64_t k,
               std::int64_t n, bool transpose_b) {
  Values c(groups.rows() * n, kNan);
  groups.each([&](std::int64_t group, std::int64_t row) {
    const double* const matrix = b.data() + group * k * n;
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t p = 0; p < k; ++p)
        sum += a[row * k + p] * (transpose_b ? matrix[j * k + p] : matrix[p * n + j]);
      c[row * n + j] = sum;
    }
  });
  return c;
}

void add_weight_product(Values& c, const Groups& groups, const Values& a, const Values& b,
                        std::int64_t m, std::int64_t n) {
  groups.each([&](std::int64_t group, std::int64_t row) {
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        c[(group * m + i) * n + j] += a[row * m + i] * b[row * n + j];
  });
}

// Whatever is in rows of no group must not matter.
Values with_nan_beyond(const Groups& groups, Values values, std::int64_t width) {
  std::fill(values.begin() + groups.used() * width, values.end(), kNan);
  return values;
}

TEST(GroupedGemm, multiplies_each_group_by_its_own_matrix_and_leaves_other_rows) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    each_shape(dtype, [&](const Groups& groups, std::int64_t k, std::int64_t n) {
      const Held starts = groups.starts(stream);
      for (const bool transpose_b : {false, true}) {
        SCOPED_TRACE(say(groups.count(), " groups, ", groups.rows(), " rows, k ", k, ", n ", n,
                         transpose_b ? ", transposed" : ""));
        const Values x = with_nan_beyond(groups, random_values(groups.rows() * k, 1, dtype), k);
        const Values y = random_values(groups.count() * k * n, 2, dtype);
        const Held a(stream, {groups.rows(), k}, dtype, x);
        const Held b(stream,
                     transpose_b ? Shape{groups.count(), n, k} : Shape{groups.count(), k, n}, dtype,
                     y);
        const Held c(stream, {groups.rows(), n}, dtype);
        grouped_gemm(stream, c, a, b, starts, transpose_b);
        expect_values(c, product(groups, x, y, k, n, transpose_b), static_cast<double>(k) + 2);
      }
    });
  });
}

// As experts do for the rows of several ranks.
TEST(GroupedGemm, repeats_the_matrices_for_more_groups) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const Groups groups{{5, 0, 70, 1, 0, 33}, 2};
    const Held starts = groups.starts(stream);
    const std::int64_t k = 37, n = 24, matrices = 2;
    const Values x = with_nan_beyond(groups, random_values(groups.rows() * k, 1, dtype), k);
    const Values y = random_values(matrices * k * n, 2, dtype);
    Values repeated;
    for (std::int64_t i = 0; i < groups.count() / matrices; ++i) {
      repeated.insert(repeated.end(), y.begin(), y.end());
    }
    const Held a(stream, {groups.rows(), k}, dtype, x);
    for (const bool transpose_b : {false, true}) {
      const Held b(stream, transpose_b ? Shape{matrices, n, k} : Shape{matrices, k, n}, dtype, y);
      const Held c(stream, {groups.rows(), n}, dtype);
      grouped_gemm(stream, c, a, b, starts, transpose_b);
      expect_values(c, product(groups, x, repeated, k, n, transpose_b), static_cast<double>(k) + 2);
    }
    const Held three(stream, {4, k, n}, dtype);
    EXPECT_THROW(
        grouped_gemm(stream, Held(stream, {groups.rows(), n}, dtype), a, three, starts, false),
        Error);
  });
}

TEST(GroupedGemm, replaces_or_adds_to_the_weight_product_of_each_group) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    each_shape(dtype, [&](const Groups& groups, std::int64_t m, std::int64_t n) {
      SCOPED_TRACE(say(groups.count(), " groups, ", groups.rows(), " rows, m ", m, ", n ", n));
      const Held starts = groups.starts(stream);
      const Values x = with_nan_beyond(groups, random_values(groups.rows() * m, 1, dtype), m);
      const Values y = with_nan_beyond(groups, random_values(groups.rows() * n, 2, dtype), n);
      const Held a(stream, {groups.rows(), m}, dtype, x);
      const Held b(stream, {groups.rows(), n}, dtype, y);
      const DType sums = accumulator_of(dtype);
      const Values before = random_values(groups.count() * m * n, 3, sums);
      const Held replaced(stream, {groups.count(), m, n}, sums);
      const Held added(stream, {groups.count(), m, n}, sums, before);
      grouped_gemm_weight(stream, replaced, a, b, starts, Accumulate::kReplace);
      grouped_gemm_weight(stream, added, a, b, starts, Accumulate::kAdd);
      const double roundings = static_cast<double>(groups.rows()) + 2;
      Values c(before.size(), 0.0);
      add_weight_product(c, groups, x, y, m, n);
      expect_values(replaced, c, roundings);
      c = before;
      add_weight_product(c, groups, x, y, m, n);
      expect_values(added, c, roundings);
    });
  });
}

// As the gradients of experts by the rows of several ranks.
TEST(GroupedGemm, adds_the_weight_products_of_more_groups_to_repeated_matrices) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    const DType sums = accumulator_of(dtype);
    const std::int64_t matrices = 3, m = 37, n = 90;
    for (const Groups& groups :
         {Groups{{5, 0, 70, 1, 0, 33, 60, 0, 0}, 2}, Groups{{0, 9, 200, 4, 0, 90}}}) {
      const Held starts = groups.starts(stream);
      const Values x = with_nan_beyond(groups, random_values(groups.rows() * m, 1, dtype), m);
      const Values y = with_nan_beyond(groups, random_values(groups.rows() * n, 2, dtype), n);
      const Held a(stream, {groups.rows(), m}, dtype, x), b(stream, {groups.rows(), n}, dtype, y);
      Values each(groups.count() * m * n, 0.0);
      add_weight_product(each, groups, x, y, m, n);
      for (const Accumulate accumulate : {Accumulate::kReplace, Accumulate::kAdd}) {
        const Values before = random_values(matrices * m * n, 3, sums);
        const Held c(stream, {matrices, m, n}, sums, before);
        grouped_gemm_weight(stream, c, a, b, starts, accumulate);
        Values expected = accumulate == Accumulate::kAdd ? before : Values(before.size(), 0.0);
        for (std::size_t i = 0; i < each.size(); ++i) expected[i % expected.size()] += each[i];
        expect_values(c, expected, static_cast<double>(groups.rows()) + 3);
        // The groups one after the other, to the bit.
        const Held apart(stream, {matrices, m, n}, sums, before);
        for (std::int64_t first = 0; first < groups.count(); first += matrices) {
          grouped_gemm_weight(stream, apart, a, b, Tensor(starts).slice(first, matrices + 1),
                              first > 0 ? Accumulate::kAdd : accumulate);
        }
        EXPECT_EQ(c.bits(), apart.bits());
      }
    }
  });
}

TEST(GroupedGemm, has_the_same_bits_on_any_number_of_threads) {
  if (kTriesCuda) GTEST_SKIP() << "of the CPU";
  const Groups groups{{50, 3, 0, 121, 9}};
  const std::int64_t k = 65, n = 90;
  const int usual = omp_get_max_threads();
  on_every_platform([&](Stream& stream) {
    const Held a(stream, {groups.rows(), k}, DType::kF32, random_values(groups.rows() * k, 1));
    const Held b(stream, {groups.count(), k, n}, DType::kF32,
                 random_values(groups.count() * k * n, 2));
    const Held starts = groups.starts(stream);
    std::vector<std::byte> rows, weights;
    for (const int threads : {1, 2, 3, 8}) {
      SCOPED_TRACE(threads);
      omp_set_num_threads(threads);
      const Held c(stream, {groups.rows(), n}, DType::kF32);
      const Held w(stream, {groups.count(), k, n}, DType::kF32);
      grouped_gemm(stream, c, a, b, starts, false);
      grouped_gemm_weight(stream, w, a, c, starts, Accumulate::kReplace);
      if (threads == 1) rows = c.bits(), weights = w.bits();
      EXPECT_EQ(c.bits(), rows);
      EXPECT_EQ(w.bits(), weights);
    }
  });
  omp_set_num_threads(usual);
}

TEST(GroupedGemm, of_other_shapes_or_dtypes_is_an_error) {
  on_every_platform([](Stream& stream) {
    const Groups groups{{2, 3}};
    const Held starts = groups.starts(stream);
    const Held a(stream, {5, 4}, DType::kF32), b(stream, {2, 4, 6}, DType::kF32);
    const Held c(stream, {5, 6}, DType::kF32), w(stream, {2, 4, 6}, DType::kF64);
    EXPECT_THROW(grouped_gemm(stream, c, a, b, starts, true), Error);
    EXPECT_THROW(grouped_gemm(stream, c, a, b, c, false), Error);
    EXPECT_THROW(grouped_gemm(stream, a, c, b, starts, false), Error);
    EXPECT_THROW(grouped_gemm_weight(stream, w, a, c, starts, Accumulate::kAdd), Error);
  });
}

}  // namespace
}  // namespace trireme::ops
