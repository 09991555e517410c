#include "model/ops/gemm_float8.h"

#include "model/ops/check.h"
#include "model/ops/cpu/gemm_float8.h"
#include "model/ops/cuda/gemm_float8.h"
#include "model/ops/dispatch.h"
#include "model/ops/record.h"

namespace trireme::ops {

void gemm_float8(Stream& stream, Arena& scratch, const Float8Gemm& product) {
  const auto& [c, a, b, accumulate, bias] = product;
  const std::int64_t m = a.rows(), n = b.rows(), k = a.columns();
  require(b.columns() == k, "gemm_float8: b has ", b.columns(), " columns, a ", k);
  require(a.format == Float8Format::kE4M3 || b.format == Float8Format::kE4M3,
          "gemm_float8: both operands are E5M2");
  require(c.dtype == DType::kBf16 || c.dtype == DType::kF32, "gemm_float8: c is ",
          name_of(c.dtype));
  require_like("gemm_float8: c", c, {m, n}, c.dtype);
  if (bias) {
    require(accumulate == Accumulate::kReplace && c.dtype == DType::kBf16,
            "gemm_float8: a bias goes into bfloat16 that is replaced");
    require_count("gemm_float8: bias", bias, n, DType::kBf16);
  }
  record_matmul(stream, c, k, /*element=*/1, accumulate);
  const Arena::Frame frame(scratch);
  const auto room_for = [&](std::int64_t rows) {
    return stream.on_cuda() ? Tensor{} : scratch.take({rows, k}, DType::kBf16);
  };
  const Tensor wide_a = room_for(m), wide_b = room_for(n);
  TRIREME_DISPATCH(stream, gemm_float8(stream, product, wide_a, wide_b));
}

std::string why_no_float8(const DeviceProperties& device) {
  if (device.major > 8 || (device.major == 8 && device.minor >= 9)) return "";
  return say(device.name, " has compute capability ", device.major, ".", device.minor,
             "; float8 needs 8.9 or newer");
}

void require_float8(Device device) {
  if (!device.is_cuda()) return;
  const std::string reason = why_no_float8(properties_of(device));
  if (!reason.empty()) {
    throw EnvironmentError(say("training.dtype = \"float8\": ", reason, "; use \"bfloat16\""));
  }
}

}  // namespace trireme::ops
