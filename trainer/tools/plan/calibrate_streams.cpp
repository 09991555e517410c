#include "model/ops/activation.h"
#include "model/ops/cross_entropy.h"
#include "model/ops/elementwise.h"
#include "model/ops/embedding.h"
#include "model/ops/norm.h"
#include "model/ops/optimizer.h"
#include "model/ops/rope.h"
#include "trainer/tools/plan/calibrate_compute.h"

namespace trireme {
namespace {

using Tensors = std::vector<Tensor>;

// 512 tokens of hidden size 512, 8 heads.
constexpr std::int64_t kStreamRows = 512, kStreamWidth = 512, kStreamWords = 1024;
constexpr ops::Heads kStreamHeads{8, 8, 64};
// Larger than the caches, as parameters and moments are.
constexpr std::int64_t kUpdated = std::int64_t{1} << 21;

}  // namespace

void ComputeCalibration::streams(DeviceProfile& profile, NumberFormat numbers) {
  const DType dtype = numbers == NumberFormat::kHalf ? DType::kBf16 : DType::kF32;
  const std::pair<Shape, DType> x{{kStreamRows, kStreamWidth}, dtype},
      wide{{kStreamRows, 2 * kStreamWidth}, dtype}, gain{{kStreamWidth}, dtype},
      gain_sum{{kStreamWidth}, DType::kF32}, each{{kStreamRows}, DType::kF32},
      ids{{kStreamRows}, DType::kI32};
  ProductRate& rate = profile.rates[static_cast<std::size_t>(numbers)];
  const auto reach = [&](const StreamKind& kind, std::int64_t elements, const TensorSpecs& specs,
                         const Work& work, std::size_t element) {
    const double taken = seconds(specs, work) - profile.launch;
    const double bytes = kind.passes * static_cast<double>(elements) * static_cast<double>(element);
    rate.streams[kind.name] = bytes / std::max(taken, 1e-9) / profile.memory_bandwidth;
  };
  const auto measure = [&](const StreamKind& kind, const TensorSpecs& specs, const Work& work) {
    reach(kind, kStreamRows * kStreamWidth, specs, work, size_of(dtype));
  };

  measure(streams::kRmsNorm, {x, each, x, gain}, [&](const Tensors& t) {
    ops::rms_norm(stream_,
                  {.y = t[0], .inv_rms = t[1], .sum = {}, .x = t[2], .residual = {}, .gain = t[3]});
  });
  measure(streams::kRmsNormBackward, {x, gain_sum, x, x, gain, each, x}, [&](const Tensors& t) {
    ops::rms_norm_backward(stream_, arena_,
                           {.dx = t[0],
                            .dgain = t[1],
                            .dy = t[2],
                            .x = t[3],
                            .gain = t[4],
                            .inv_rms = t[5],
                            .dresidual = t[6]});
  });
  measure(streams::kLayerNorm, {x, each, each, x, gain, gain}, [&](const Tensors& t) {
    ops::layer_norm(stream_, {.y = t[0],
                              .mean = t[1],
                              .inv_std = t[2],
                              .sum = {},
                              .x = t[3],
                              .residual = {},
                              .gain = t[4],
                              .bias = t[5]});
  });
  measure(streams::kLayerNormBackward, {x, gain_sum, gain_sum, x, x, gain, each, each, x},
          [&](const Tensors& t) {
            ops::layer_norm_backward(stream_, arena_,
                                     {.dx = t[0],
                                      .dgain = t[1],
                                      .dbias = t[2],
                                      .dy = t[3],
                                      .x = t[4],
                                      .gain = t[5],
                                      .mean = t[6],
                                      .inv_std = t[7],
                                      .dresidual = t[8]});
          });
  measure(streams::kGelu, {x, x}, [&](const Tensors& t) { ops::gelu(stream_, t[0], t[1]); });
  measure(streams::kGeluBackward, {x, x, x},
          [&](const Tensors& t) { ops::gelu_backward(stream_, t[0], t[1], t[2]); });
  measure(streams::kSwiGlu, {x, wide}, [&](const Tensors& t) { ops::swiglu(stream_, t[0], t[1]); });
  measure(streams::kSwiGluBackward, {wide, x, wide},
          [&](const Tensors& t) { ops::swiglu_backward(stream_, t[0], t[1], t[2]); });
  measure(streams::kAdd, {x, x, x}, [&](const Tensors& t) { ops::add(stream_, t[0], t[1], t[2]); });
  measure(streams::kEmbedding, {x, x, ids}, [&](const Tensors& t) {
    ops::embedding(stream_, t[0], t[1], t[2], 0, ops::Accumulate::kReplace);
  });
  const std::pair<Shape, DType> table_sum{{kStreamRows, kStreamWidth}, DType::kF32};
  measure(streams::kEmbeddingBackward, {table_sum, x, ids}, [&](const Tensors& t) {
    ops::embedding_backward(stream_, arena_, t[0], t[1], t[2], 0, ops::Accumulate::kAdd);
  });

  const std::pair<Shape, DType> qkv{{kStreamRows, kStreamHeads.qkv()}, dtype},
      table{{kStreamRows, kStreamHeads.width}, DType::kF32};
  reach(
      streams::kRope, kStreamRows * 2 * kStreamHeads.query(), {qkv, ids, table},
      [&](const Tensors& t) { ops::rope(stream_, t[0], t[1], t[2], kStreamHeads, false); },
      size_of(dtype));
  const std::pair<Shape, DType> logits{{kStreamRows, kStreamWords}, dtype};
  reach(
      streams::kLoss, kStreamRows * kStreamWords, {logits, each, each, each, each, ids},
      [&](const Tensors& t) {
        ops::row_max(stream_, t[1], t[0]);
        ops::row_exp_sum(stream_, t[2], t[3], t[0], t[1], t[5], 0);
        ops::cross_entropy(stream_, t[4], t[2], t[3], t[5]);
        ops::cross_entropy_backward(stream_, t[0], t[1], t[2], t[5], 0, {});
      },
      size_of(dtype));

  const bool apart = dtype != DType::kF32;  // masters
  const std::pair<Shape, DType> value{{kUpdated}, dtype}, sum{{kUpdated}, DType::kF32},
      one{{1}, DType::kF32}, squares{{kUpdated / ops::kNormChunk}, DType::kF64};
  reach(
      streams::kUpdate, kUpdated,
      apart ? TensorSpecs{value, sum, sum, sum, one, squares, sum}
            : TensorSpecs{value, sum, sum, sum, one, squares},
      [&](const Tensors& t) {
        ops::zero(stream_, t[5]);
        ops::add_chunk_squares(stream_, t[5], t[3]);
        ops::adamw(stream_,
                   {.value = t[0],
                    .master = apart ? t[6] : Tensor{},
                    .m = t[1],
                    .v = t[2],
                    .grad = t[3],
                    .grad_scale = t[4]},
                   {.learning_rate = 1e-4});
      },
      sizeof(float));
}

}  // namespace trireme
