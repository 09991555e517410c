#include "model/params/init.h"

#include <string>
#include <vector>

#include "model/base/philox.h"
#include "model/device/copy.h"
#include "model/ops/dispatch.h"
#include "model/ops/draw.h"
#include "model/ops/elementwise.h"

namespace trireme {
namespace {

void fill_ones(Stream& stream, const Tensor& out) {
  with_float(out.dtype, [&]<class T>(T) {
    const std::vector<T> ones(static_cast<std::size_t>(out.count()), static_cast<T>(1.0f));
    copy_bytes(stream, out.data, reinterpret_cast<const std::byte*>(ones.data()), out.bytes());
    stream.synchronize();
  });
}

}  // namespace

ElementInit::ElementInit(Init init, double scale, std::uint64_t seed, std::string_view name)
    : init_(init), scale_(scale), key_(random_key(seed, std::string("init/").append(name))) {}

void ElementInit::fill(std::uint64_t first, std::span<float> out) const {
  Stream stream;
  const auto count = static_cast<std::int64_t>(out.size());
  const Tensor tensor{reinterpret_cast<std::byte*>(out.data()), DType::kF32, {count}, Device{}};
  fill(stream, tensor, {.run = count, .stride = count, .start = static_cast<std::int64_t>(first)});
}

void ElementInit::fill(Stream& stream, Tensor out, const ops::Strided& where) const {
  if (out.count() == 0) return;
  switch (init_) {
    case Init::kNormal:
      return ops::draw_normal(stream, out, {.key = key_, .scale = scale_, .where = where});
    case Init::kOnes:
      return fill_ones(stream, out);
    case Init::kZeros:
      return ops::zero(stream, out);
  }
}

}  // namespace trireme
