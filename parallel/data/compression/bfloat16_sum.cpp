#include "parallel/data/compression/bfloat16_sum.h"

#include "model/ops/elementwise.h"
#include "parallel/data/compression/traffic.h"

namespace trireme {

Bfloat16Sum::Bfloat16Sum(Communicator& group, const GradientRange& range, CompressionMemory memory)
    : group_(group),
      gradients_(range.gradients),
      message_(memory.messages.take(gradients_.shape, DType::kBf16)) {}

void Bfloat16Sum::reduce(Stream& stream, std::int64_t) {
  ops::cast(stream, message_, gradients_);
  group_.all_reduce(stream, message_, Reduce::kSum);
  ops::cast(stream, gradients_, message_);
}

std::int64_t Bfloat16Sum::bytes_sent() const {
  return all_reduce_bytes(group_, message_.bytes());
}

}  // namespace trireme
