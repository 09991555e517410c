#include "parallel/data/compression/compressed_sum.h"

#include "model/ops/elementwise.h"

namespace trireme {
namespace {

class Bfloat16Sum final : public CompressedSum {
 public:
  Bfloat16Sum(Communicator& group, const GradientRange& range, CompressionMemory memory);
  void reduce(Stream& stream, std::int64_t update) override;
  std::int64_t bytes_sent() const override;

 private:
  Communicator& group_;
  Tensor gradients_, message_;
};

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

}  // namespace

std::unique_ptr<CompressedSum> make_bfloat16_sum(Communicator& group, const GradientRange& range,
                                                 CompressionMemory memory) {
  return std::make_unique<Bfloat16Sum>(group, range, memory);
}

}  // namespace trireme
