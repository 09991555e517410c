#include "model/ops/draw.h"

#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void draw_normal(Stream&, Tensor out, const NormalDraw& how));

void draw_normal(Stream& stream, Tensor out, const NormalDraw& how) {
  require(how.where.first >= 0 && how.where.start >= 0 && how.where.run >= 1 &&
              how.where.stride >= how.where.run,
          "draw_normal: runs of ", how.where.run, " every ", how.where.stride, " from ",
          how.where.start);
  record_memory(stream, "draw", {out});
  TRIREME_DISPATCH(stream, draw_normal(stream, out, how));
}

}  // namespace trireme::ops
