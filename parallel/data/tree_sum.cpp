#include "parallel/data/tree_sum.h"

#include <bit>

#include "model/ops/elementwise.h"

namespace trireme {
namespace {

bool waits(std::int64_t k, std::size_t level) {
  return (k >> level & 1) != 0;
}

}  // namespace

int TreeSum::levels(std::int64_t leaves) {
  return leaves < 2 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(leaves - 1)));
}

Tensor TreeSum::place(std::int64_t k, std::int64_t leaves, const Tensor& total,
                      const std::vector<Tensor>& partial) {
  return waits(k, 0) || k + 1 == leaves ? total : partial[0];
}

void TreeSum::add(Stream& stream, std::int64_t k, std::int64_t leaves, Tensor leaf,
                  const Tensor& total, const std::vector<Tensor>& partial) {
  const bool last = k + 1 == leaves;
  Tensor carry = leaf;
  std::size_t level = 0;
  for (; waits(k, level); ++level) {
    const Tensor sum = waits(k, level + 1) || last ? total : partial[level + 1];
    ops::add(stream, sum, partial[level], carry);
    carry = sum;
  }
  if (last) {
    for (; (k >> level) != 0; ++level) {
      if (!waits(k, level)) continue;
      ops::add(stream, total, partial[level], carry);
      carry = total;
    }
  }
  const Tensor& rests = last ? total : partial[level];
  if (carry.data != rests.data) ops::copy(stream, rests, carry);
}

}  // namespace trireme
