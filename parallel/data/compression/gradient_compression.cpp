#include "parallel/data/compression/gradient_compression.h"

namespace trireme {
namespace {

using Method = CompressionOptions::Method;

std::unique_ptr<CompressedSum> make_sum(const CompressionOptions& options, Communicator& group,
                                        const GradientRange& range, CompressionMemory memory) {
  switch (options.method) {
    case Method::kBfloat16:
      return make_bfloat16_sum(group, range, memory);
    case Method::kFloat16:
      return make_float16_sum(group, range, memory);
    case Method::kTopK:
      return make_top_k_sum(group, range, options.fraction, memory);
    case Method::kPowerSgd:
      return make_power_sgd_sum(group, range, static_cast<int>(options.rank), memory);
    case Method::kOneBit:
      return make_one_bit_sum(group, range, memory);
    case Method::kNone:
      break;
  }
  throw Error("no compression has no sums");
}

}  // namespace

GradientCompression::GradientCompression(const CompressionOptions& options, Communicator& replicas,
                                         std::vector<GradientRange> ranges,
                                         CompressionMemory memory)
    : options_(options), replicas_(replicas), ranges_(std::move(ranges)) {
  if (options.method == Method::kNone) return;
  const bool cpu_only = options.method != Method::kBfloat16;
  if (cpu_only && memory.messages.device().is_cuda()) {
    throw ConfigError(say("gradient compression \"",
                          kCompressionNames[static_cast<std::size_t>(options.method)],
                          "\" is implemented on the CPU only; on a GPU use \"bfloat16\""));
  }
  for (const GradientRange& range : ranges_) {
    sums_.push_back(make_sum(options, replicas, range, memory));
  }
}

void GradientCompression::reduce(Stream& stream, std::size_t index, std::int64_t update) {
  if (sums_.empty() || update <= options_.warmup_steps) {
    replicas_.all_reduce(stream, ranges_.at(index).gradients, Reduce::kSum);
  } else {
    sums_.at(index)->reduce(stream, update);
  }
}

GradientCompression::Traffic GradientCompression::traffic() const {
  Traffic traffic;
  for (const GradientRange& range : ranges_) {
    traffic.uncompressed += all_reduce_bytes(replicas_, range.gradients.bytes());
  }
  if (sums_.empty()) traffic.sent = traffic.uncompressed;
  for (const auto& sum : sums_) traffic.sent += sum->bytes_sent();
  return traffic;
}

}  // namespace trireme
