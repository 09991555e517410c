#include "model/ops/average.h"

#include "model/ops/check.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

TRIREME_ON_DEVICES(void update_average(Stream&, Tensor average, Tensor weight, Tensor grad_scale,
                                       double decay));

void update_average(Stream& stream, Tensor average, Tensor weight, Tensor grad_scale,
                    double decay) {
  require(average.dtype == accumulator_of(average.dtype), "update_average: average is ",
          name_of(average.dtype));
  require_count("update_average: weight", weight, average.count(), average.dtype);
  require_count("update_average: grad_scale", grad_scale, 1, average.dtype);
  require(decay >= 0 && decay < 1, "update_average: decay ", decay, " is not in [0, 1)");
  record_memory(stream, "update", {average, average, weight});
  TRIREME_DISPATCH(stream, update_average(stream, average, weight, grad_scale, decay));
}

}  // namespace trireme::ops
