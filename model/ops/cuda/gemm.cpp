#include "model/ops/cuda/gemm.h"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <map>
#include <mutex>
#include <optional>

#include "model/device/copy.h"
#include "model/ops/cuda/gemm_engine.h"

namespace trireme::ops::cuda {
namespace {

// The process's engine for a device. No device waits for the making of another's.
GemmEngine& engine_of(Device device) {
  struct Slot {
    std::once_flag once;
    std::optional<GemmEngine> engine;
  };
  static std::mutex mutex;
  static std::map<int, Slot> slots;
  std::unique_lock guard(mutex);
  Slot& slot = slots[device.index];
  guard.unlock();
  std::call_once(slot.once, [&] { slot.engine.emplace(device, GemmCache::user_folder()); });
  return *slot.engine;
}

// Common alignment of all addresses in bytes, at most 16.
int alignment_of(std::initializer_list<const std::byte*> addresses) {
  std::uintptr_t bits = 16;
  for (const std::byte* address : addresses) bits |= reinterpret_cast<std::uintptr_t>(address);
  return 1 << std::countr_zero(bits);
}

// Fills every row of c with `row`: each copy has twice the rows of the previous one.
void fill_rows(Stream& stream, const Tensor& c, const Tensor& row) {
  copy_bytes(stream, c.data, row.data, row.bytes());
  for (std::int64_t done = 1; done < c.rows(); done *= 2) {
    const std::int64_t more = std::min(done, c.rows() - done);
    copy_bytes(stream, c.row_slice(done, more).data, c.data, c.row_slice(0, more).bytes());
  }
}

}  // namespace

void prepare_gemm(Stream& stream, std::size_t most_added) {
  engine_of(stream.device()).prepare(stream, most_added);
}
void end_gemm_timing(Stream& stream) {
  engine_of(stream.device()).end_timing();
}

void gemm(Stream& stream, Tensor c, Tensor a, Tensor b, const Gemm& how) {
  if (how.bias) {
    require(how.bias.dtype == c.dtype, "gemm: CUDA adds no ", name_of(how.bias.dtype),
            " bias into ", name_of(c.dtype));
  }
  const bool is_empty = a.count() == 0;  // an expert without tokens has a gradient too
  // The library has no bias for float64: the product is accumulated onto it.
  const bool bias_first = how.bias && (is_empty || c.dtype == DType::kF64);
  if (bias_first) fill_rows(stream, c, how.bias);
  if (is_empty) {
    if (how.accumulate == Accumulate::kReplace && !bias_first)
      fill_bytes(stream, c.data, 0, c.bytes());
    return;
  }
  MatMul product;
  product.shape = {
      .transpose_a = how.transpose_a,
      .transpose_b = how.transpose_b,
      .accumulate = bias_first ? Accumulate::kAdd : how.accumulate,
      .bias = how.bias && !bias_first,
      .addend = static_cast<bool>(how.addend),
      .in = a.dtype,
      .out = c.dtype,
      .m = c.rows(),
      .n = c.width(),
      .k = a.count() / c.rows(),
      .alignment = alignment_of({a.data, b.data, c.data, how.bias.data, how.addend.data})};
  product.a = a.data;
  product.b = b.data;
  product.bias = how.bias.data;
  product.addend = how.addend.data;
  product.c = c.data;
  engine_of(stream.device()).run(stream, product);
}

void gemm_float8(Stream& stream, const Float8Gemm& given, Tensor /*wide_a*/, Tensor /*wide_b*/) {
  const auto& [c, a, b, accumulate, bias, addend] = given;
  MatMul product;
  product.shape = {.transpose_b = true,
                   .accumulate = accumulate,
                   .bias = static_cast<bool>(bias),
                   .addend = static_cast<bool>(addend),
                   .in = DType::kBf16,
                   .out = c.dtype,
                   .m = c.rows(),
                   .n = c.width(),
                   .k = a.columns(),
                   .alignment = alignment_of({a.codes.data, b.codes.data, c.data, addend.data}),
                   .float8_a = a.format,
                   .float8_b = b.format};
  product.a = a.codes.data;
  product.b = b.codes.data;
  product.a_scale = a.inverse_scale.data;
  product.b_scale = b.inverse_scale.data;
  product.bias = bias.data;
  product.addend = addend.data;
  product.c = c.data;
  engine_of(stream.device()).run(stream, product);
}

}  // namespace trireme::ops::cuda
