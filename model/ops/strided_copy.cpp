#include "model/ops/strided_copy.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void scatter_strided(Stream&, Tensor whole, Tensor part, const Strided& where));
TRIREME_ON_DEVICES(void gather_strided(Stream&, Tensor part, Tensor whole, const Strided& where));
TRIREME_ON_DEVICES(void round_stochastically(Stream&, Tensor to, Tensor from, Tensor unless_nan,
                                             const StochasticRounding& how));

namespace {

void require_inside(const char* what, const Tensor& whole, const Tensor& part,
                    const Strided& where) {
  require(whole.dtype == part.dtype, what, ": whole is ", name_of(whole.dtype), ", the part ",
          name_of(part.dtype));
  require(where.first >= 0 && where.start >= 0 && where.run >= 1 && where.stride >= where.run, what,
          ": runs of ", where.run, " every ", where.stride, " from ", where.start);
  if (part.count() == 0) return;
  const std::int64_t last = where.first + part.count() - 1;
  const std::int64_t end = last / where.run * where.stride + where.start + last % where.run;
  require(end < whole.count(), what, ": element ", end, " of ", whole.shape);
}

}  // namespace

void scatter_strided(Stream& stream, Tensor whole, Tensor part, const Strided& where) {
  require_inside("scatter_strided", whole, part, where);
  record_memory(stream, "copy", {part, part});
  TRIREME_DISPATCH(stream, scatter_strided(stream, whole, part, where));
}

void gather_strided(Stream& stream, Tensor part, Tensor whole, const Strided& where) {
  require_inside("gather_strided", whole, part, where);
  record_memory(stream, "copy", {part, part});
  TRIREME_DISPATCH(stream, gather_strided(stream, part, whole, where));
}

void round_stochastically(Stream& stream, Tensor to, Tensor from, Tensor unless_nan,
                          const StochasticRounding& how) {
  require_count("round_stochastically: to", to, from.count(), DType::kBf16);
  require_count("round_stochastically: from", from, from.count(), DType::kF32);
  if (unless_nan) require_count("round_stochastically: unless_nan", unless_nan, 1, DType::kF32);
  record_memory(stream, "cast", {to, from});
  TRIREME_DISPATCH(stream, round_stochastically(stream, to, from, unless_nan, how));
}

}  // namespace trireme::ops
