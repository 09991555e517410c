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

// Rates of the memory-bound operations in one format.
class ComputeCalibration::StreamRates {
 public:
  StreamRates(ComputeCalibration& of, DeviceProfile& profile, NumberFormat numbers)
      : of_(of),
        stream_(of.stream_),
        arena_(of.arena_),
        profile_(profile),
        rate_(profile.rates[static_cast<std::size_t>(numbers)]),
        dtype_(numbers == NumberFormat::kHalf ? DType::kBf16 : DType::kF32) {}

  void norms();
  void elementwise();
  void embedding();
  void rope();
  void loss();
  void update();

 private:
  using Spec = TensorSpecs::value_type;
  // `elements`: of `element` bytes, that the operation passes over.
  void set_rate(const StreamKind& kind, std::int64_t elements, const TensorSpecs& specs,
                const Work& work, std::size_t element) {
    const double taken = of_.seconds(specs, work) - profile_.launch;
    const double bytes = kind.passes * static_cast<double>(elements) * static_cast<double>(element);
    rate_.streams[kind.name] = bytes / std::max(taken, 1e-9) / profile_.memory_bandwidth;
  }
  void measure(const StreamKind& kind, const TensorSpecs& specs, const Work& work) {
    set_rate(kind, kStreamRows * kStreamWidth, specs, work, size_of(dtype_));
  }

  ComputeCalibration& of_;
  Stream& stream_;
  Arena& arena_;
  const DeviceProfile& profile_;
  ProductRate& rate_;
  const DType dtype_;
  const Spec x_{{kStreamRows, kStreamWidth}, dtype_},
      wide_{{kStreamRows, 2 * kStreamWidth}, dtype_}, gain_{{kStreamWidth}, dtype_},
      gain_sum_{{kStreamWidth}, DType::kF32}, each_{{kStreamRows}, DType::kF32},
      ids_{{kStreamRows}, DType::kI32};
};

void ComputeCalibration::StreamRates::norms() {
  const auto measure_kind = [&](NormKind kind, const StreamKind& forward,
                                const StreamKind& backward) {
    measure(forward, {x_, each_, each_, x_, gain_, gain_}, [&](const Tensors& t) {
      ops::norm(stream_, {.kind = kind,
                          .y = t[0],
                          .mean = t[1],
                          .inverse = t[2],
                          .x = t[3],
                          .gain = t[4],
                          .bias = t[5]});
    });
    measure(backward, {x_, gain_sum_, gain_sum_, x_, x_, gain_, each_, each_, x_},
            [&](const Tensors& t) {
              ops::norm_backward(stream_, arena_,
                                 {.kind = kind,
                                  .dx = t[0],
                                  .dgain = t[1],
                                  .dbias = t[2],
                                  .dy = t[3],
                                  .x = t[4],
                                  .gain = t[5],
                                  .mean = t[6],
                                  .inverse = t[7],
                                  .dresidual = t[8]});
            });
  };
  measure_kind(NormKind::kRmsNorm, streams::kRmsNorm, streams::kRmsNormBackward);
  measure_kind(NormKind::kLayerNorm, streams::kLayerNorm, streams::kLayerNormBackward);
}

void ComputeCalibration::StreamRates::elementwise() {
  measure(streams::kGelu, {x_, x_}, [&](const Tensors& t) { ops::gelu(stream_, t[0], t[1]); });
  measure(streams::kGeluBackward, {x_, x_, x_},
          [&](const Tensors& t) { ops::gelu_backward(stream_, t[0], t[1], t[2]); });
  measure(streams::kSwiGlu, {x_, wide_},
          [&](const Tensors& t) { ops::swiglu(stream_, t[0], t[1]); });
  measure(streams::kSwiGluBackward, {wide_, x_, wide_},
          [&](const Tensors& t) { ops::swiglu_backward(stream_, t[0], t[1], t[2]); });
  measure(streams::kAdd, {x_, x_, x_},
          [&](const Tensors& t) { ops::add(stream_, t[0], t[1], t[2]); });
}

void ComputeCalibration::StreamRates::embedding() {
  measure(streams::kEmbedding, {x_, x_, ids_}, [&](const Tensors& t) {
    ops::embedding(stream_, t[0], t[1], t[2], 0, ops::Accumulate::kReplace);
  });
  const Spec table_sum{{kStreamRows, kStreamWidth}, DType::kF32};
  measure(streams::kEmbeddingBackward, {table_sum, x_, ids_}, [&](const Tensors& t) {
    ops::embedding_backward(stream_, arena_, t[0], t[1], t[2], 0, ops::Accumulate::kAdd);
  });
}

void ComputeCalibration::StreamRates::rope() {
  const Spec qkv{{kStreamRows, kStreamHeads.qkv()}, dtype_},
      table{{kStreamRows, kStreamHeads.width}, DType::kF32};
  set_rate(
      streams::kRope, kStreamRows * 2 * kStreamHeads.query(), {qkv, ids_, table},
      [&](const Tensors& t) { ops::rope(stream_, t[0], t[1], t[2], kStreamHeads, false); },
      size_of(dtype_));
}

void ComputeCalibration::StreamRates::loss() {
  const Spec logits{{kStreamRows, kStreamWords}, dtype_};
  set_rate(
      streams::kLoss, kStreamRows * kStreamWords, {logits, each_, each_, each_, each_, ids_},
      [&](const Tensors& t) {
        ops::row_max(stream_, t[1], t[0]);
        ops::row_exp_sum(stream_, t[2], t[3], t[0], t[1], t[5], 0);
        ops::cross_entropy(stream_, t[4], t[2], t[3], t[5]);
        ops::cross_entropy_backward(stream_, t[0], t[1], t[2], t[5], 0, {});
      },
      size_of(dtype_));
}

void ComputeCalibration::StreamRates::update() {
  const bool apart = dtype_ != DType::kF32;  // masters
  const Spec value{{kUpdated}, dtype_}, sum{{kUpdated}, DType::kF32}, one{{1}, DType::kF32},
      squares{{kUpdated / ops::kNormChunk}, DType::kF64};
  set_rate(
      streams::kUpdate, kUpdated,
      apart ? TensorSpecs{value, sum, sum, sum, one, squares, sum}
            : TensorSpecs{value, sum, sum, sum, one, squares},
      [&](const Tensors& t) {
        ops::zero(stream_, t[5]);
        ops::add_chunk_squares(stream_, t[5], t[3]);
        ops::adamw(stream_,
                   {.value = t[0], .master = t[apart ? 6 : 0], .grad = t[3], .state = {t[1], t[2]}},
                   t[4], {.learning_rate = 1e-4});
      },
      sizeof(float));
}

void ComputeCalibration::streams(DeviceProfile& profile, NumberFormat numbers) {
  StreamRates rates(*this, profile, numbers);
  rates.norms();
  rates.elementwise();
  rates.embedding();
  rates.rope();
  rates.loss();
  rates.update();
}

}  // namespace trireme
