#include "model/ops/gemm.h"

#include "model/ops/check.h"
#include "model/ops/cpu/gemm.h"
#include "model/ops/cuda/gemm.h"
#include "model/ops/dispatch.h"
#include "model/ops/elementwise.h"
#include "model/ops/record.h"

namespace trireme::ops {
namespace {

void require_addend(const Stream& stream, Tensor addend, Tensor c, Accumulate accumulate) {
  if (!addend) return;
  require(accumulate == Accumulate::kReplace, "gemm: an addend is for a result that is replaced");
  require(!stream.executes() || addend.data != c.data, "gemm: c is its addend");
  require_count("gemm: addend", addend, c.count(), c.dtype);
}

}  // namespace

void gemm(Stream& stream, Tensor c, Tensor a, Tensor b, const Gemm& how) {
  const std::int64_t m = c.rows(), n = c.width();
  const std::int64_t k = how.transpose_a ? a.rows() : a.width();
  const std::int64_t a_m = how.transpose_a ? a.width() : a.rows();
  const std::int64_t b_k = how.transpose_b ? b.width() : b.rows();
  const std::int64_t b_n = how.transpose_b ? b.rows() : b.width();
  // An empty operand has no rows to count; its shape is sufficient.
  if (c.count() == 0) return;
  require(a.count() == 0 || (a_m == m && a.count() == m * k), "gemm: a ", a.shape,
          how.transpose_a ? " transposed" : "", " does not give c ", c.shape);
  require(b.count() == 0 || (b_n == n && b_k == k), "gemm: b ", b.shape,
          how.transpose_b ? " transposed" : "", " does not follow a ", a.shape, " into c ",
          c.shape);
  require((a.count() == 0) == (b.count() == 0), "gemm: a ", a.shape, " and b ", b.shape,
          " are not both empty");
  require(a.dtype == b.dtype, "gemm: a is ", name_of(a.dtype), ", b is ", name_of(b.dtype));
  require(c.dtype == a.dtype || c.dtype == accumulator_of(a.dtype), "gemm: c is ", name_of(c.dtype),
          ", the operands are ", name_of(a.dtype));
  require(a.dtype != DType::kI32, "gemm: operands are int32");
  if (how.bias) {
    require(how.accumulate == Accumulate::kReplace, "gemm: a bias cannot be added to a sum");
    require(how.bias.count() == n && how.bias.dtype == a.dtype, "gemm: bias ", how.bias.shape, " ",
            name_of(how.bias.dtype), " for ", n, " columns of ", name_of(a.dtype));
  }
  require_addend(stream, how.addend, c, how.accumulate);
  // The CPU's libraries add in place alone; cuBLASLt adds no bias in float64, and no empty product.
  const bool adds =
      how.addend && stream.on_cuda() && a.count() > 0 && !(how.bias && c.dtype == DType::kF64);
  if (how.addend && !adds) {
    Gemm product = how;
    product.addend = {};
    gemm(stream, c, a, b, product);
    return add(stream, c, c, how.addend);
  }
  if (a.count() > 0) {
    record_matmul(stream, c, k, size_of(a.dtype), adds || how.accumulate == Accumulate::kAdd,
                  how.transpose_a);
  }
  TRIREME_DISPATCH(stream, gemm(stream, c, a, b, how));
}

std::size_t gemm_workspace_bytes(Device device) {
  return device.is_cuda() ? cuda::kGemmWorkspaceBytes : 0;
}

void prepare_gemm(Stream& stream, std::size_t most_added) {
  TRIREME_DISPATCH(stream, prepare_gemm(stream, most_added));
}

void end_gemm_timing(Stream& stream) {
  TRIREME_DISPATCH(stream, end_gemm_timing(stream));
}

void gemm_float8(Stream& stream, Arena& scratch, const Float8Gemm& product) {
  const auto& [c, a, b, accumulate, bias, addend] = product;
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
  require_addend(stream, addend, c, accumulate);
  if (addend && !stream.on_cuda()) {
    Float8Gemm alone = product;
    alone.addend = {};
    gemm_float8(stream, scratch, alone);
    return add(stream, c, c, addend);
  }
  record_matmul(stream, c, k, /*element=*/1, addend || accumulate == Accumulate::kAdd,
                /*transpose_a=*/false);
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
