#include "model/ops/activation.h"
#include "model/ops/cross_entropy.h"
#include "model/ops/elementwise.h"
#include "model/ops/embedding.h"
#include "model/ops/float8.h"
#include "model/ops/gemm.h"
#include "model/ops/norm.h"
#include "model/ops/optimizer.h"
#include "model/ops/rope.h"
#include "trainer/tools/plan/calibrate/calibrate_compute.h"

namespace trireme {
namespace {

using Tensors = std::vector<Tensor>;

}  // namespace

// Rates of the memory-bound operations in one format.
class ComputeCalibration::StreamRates {
 public:
  StreamRates(ComputeCalibration& of, DeviceProfile& profile, NumberFormat numbers)
      : of_(of),
        sizes_(of.sizes_),
        arena_(of.arena_),
        profile_(profile),
        rate_(profile.rates[static_cast<std::size_t>(numbers)]),
        dtype_(numbers == NumberFormat::kHalf ? DType::kBf16 : DType::kF32) {}

  void norms();
  void elementwise();
  void embedding();
  void rope();
  void loss();
  void quantization();
  void update();

 private:
  using Spec = TensorSpecs::value_type;
  // Ops that are measured together get one rate.
  void measure(const TensorSpecs& specs, const Work& work) {
    double bytes = 0, taken = of_.seconds(specs, work);
    const std::vector<PlannedOp> ops = of_.recorded(specs, work);
    for (const PlannedOp& op : ops) {
      bytes += op.bytes;
      taken -= profile_.launch;
    }
    for (const PlannedOp& op : ops) {
      rate_.streams[op.name] = bytes / std::max(taken, 1e-9) / profile_.memory_bandwidth;
    }
  }

  ComputeCalibration& of_;
  const CalibrationSizes& sizes_;
  Arena& arena_;
  const DeviceProfile& profile_;
  ProductRate& rate_;
  const DType dtype_;
  const Spec x_{{sizes_.stream_rows, sizes_.stream_width}, dtype_},
      wide_{{sizes_.stream_rows, 2 * sizes_.stream_width}, dtype_},
      gain_{{sizes_.stream_width}, dtype_}, gain_sum_{{sizes_.stream_width}, DType::kF32},
      each_{{sizes_.stream_rows}, DType::kF32}, ids_{{sizes_.stream_rows}, DType::kI32};
};

void ComputeCalibration::StreamRates::norms() {
  for (const NormKind kind : {NormKind::kRmsNorm, NormKind::kLayerNorm}) {
    measure({x_, each_, each_, x_, gain_, gain_}, [&](Stream& stream, const Tensors& t) {
      ops::norm(stream, {.kind = kind,
                         .y = t[0],
                         .mean = t[1],
                         .inverse = t[2],
                         .x = t[3],
                         .gain = t[4],
                         .bias = t[5]});
    });
    measure({x_, gain_sum_, gain_sum_, x_, x_, gain_, each_, each_, x_},
            [&](Stream& stream, const Tensors& t) {
              ops::norm_backward(stream, arena_,
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
  }
}

void ComputeCalibration::StreamRates::elementwise() {
  measure({x_, x_}, [&](Stream& stream, const Tensors& t) {
    ops::activate(stream, t[0], t[1], Activation::kGeluTanh);
  });
  measure({x_, x_, x_}, [&](Stream& stream, const Tensors& t) {
    ops::activate_backward(stream, t[0], t[1], t[2], Activation::kGeluTanh);
  });
  measure({x_, wide_}, [&](Stream& stream, const Tensors& t) {
    ops::gate(stream, t[0], t[1], Activation::kSilu);
  });
  measure({wide_, x_, wide_}, [&](Stream& stream, const Tensors& t) {
    ops::gate_backward(stream, t[0], t[1], t[2], Activation::kSilu);
  });
  measure({x_, x_, x_},
          [&](Stream& stream, const Tensors& t) { ops::add(stream, t[0], t[1], t[2]); });
  measure({gain_sum_, x_}, [&](Stream& stream, const Tensors& t) {
    ops::bias_backward(stream, t[0], t[1], ops::Accumulate::kAdd);
  });
}

void ComputeCalibration::StreamRates::embedding() {
  measure({x_, x_, ids_}, [&](Stream& stream, const Tensors& t) {
    ops::embedding(stream, t[0], t[1], t[2], 0, ops::Accumulate::kReplace);
  });
  const Spec table_sum{{sizes_.stream_rows, sizes_.stream_width}, DType::kF32};
  measure({table_sum, x_, ids_}, [&](Stream& stream, const Tensors& t) {
    ops::embedding_backward(stream, arena_, t[0], t[1], t[2], 0, ops::Accumulate::kAdd);
  });
}

void ComputeCalibration::StreamRates::rope() {
  const Spec qkv{{sizes_.stream_rows, sizes_.stream_heads.qkv()}, dtype_},
      table{{sizes_.stream_rows, sizes_.stream_heads.width}, DType::kF32};
  measure({qkv, ids_, table}, [&](Stream& stream, const Tensors& t) {
    ops::rope(stream, t[0], t[1], t[2], {.heads = sizes_.stream_heads});
  });
}

void ComputeCalibration::StreamRates::loss() {
  const Spec logits{{sizes_.stream_rows, sizes_.words}, dtype_};
  measure({logits, each_, each_, each_, each_, ids_}, [](Stream& stream, const Tensors& t) {
    ops::row_max(stream, t[1], t[0]);
    ops::row_exp_sum(stream, t[2], t[3], t[0], t[1], t[5], 0);
    ops::cross_entropy(stream, t[4], t[1], t[2], t[3], t[5]);
    ops::cross_entropy_backward(stream, t[0], t[1], t[2], t[5], 0, {});
  });
}

// A matrix and its transpose.
void ComputeCalibration::StreamRates::quantization() {
  measure({x_}, [&](Stream& stream, const Tensors& t) {
    for (const bool transpose : {false, true}) {
      const Arena::Frame frame(arena_);
      ops::quantize(stream, arena_, t[0], Float8Format::kE4M3, transpose);
    }
  });
}

void ComputeCalibration::StreamRates::update() {
  const bool apart = dtype_ != DType::kF32;  // masters
  const Spec value{{sizes_.updated}, dtype_}, sum{{sizes_.updated}, DType::kF32},
      one{{1}, DType::kF32}, squares{{sizes_.updated / ops::kNormChunk}, DType::kF64};
  measure(apart ? TensorSpecs{value, sum, sum, sum, one, squares, sum}
                : TensorSpecs{value, sum, sum, sum, one, squares},
          [&](Stream& stream, const Tensors& t) {
            ops::add_chunk_squares(stream, t[5], t[3]);
            ops::adamw(
                stream,
                {.value = t[0], .master = t[apart ? 6 : 0], .grad = t[3], .state = {t[1], t[2]}},
                t[4], {.learning_rate = 1e-4});
          });
}

void ComputeCalibration::streams(DeviceProfile& profile, NumberFormat numbers) {
  StreamRates rates(*this, profile, numbers);
  rates.norms();
  rates.elementwise();
  rates.embedding();
  rates.rope();
  rates.loss();
  if (numbers == NumberFormat::kHalf) rates.quantization();
  rates.update();
}

}  // namespace trireme
