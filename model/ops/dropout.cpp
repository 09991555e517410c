#include "model/ops/dropout.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void dropout(Stream&, Tensor y, Tensor x, const Dropout&));

void dropout(Stream& stream, Tensor y, Tensor x, const Dropout& how) {
  require_count("dropout: x", x, y.count(), y.dtype);
  require_count("dropout: words", how.words, x.rows(), DType::kI32);
  require(how.rate >= 0 && how.dropped() < 65536, "dropout: the rate ", how.rate,
          " is not in [0, 1)");
  record_memory(stream, "dropout", {y, x});
  TRIREME_DISPATCH(stream, dropout(stream, y, x, how));
}

}  // namespace trireme::ops
