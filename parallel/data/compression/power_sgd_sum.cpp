#include "parallel/data/compression/compressed_sum.h"

#include <vector>

#include "model/ops/elementwise.h"
#include "model/ops/gemm.h"
#include "parallel/data/compression/low_rank.h"

namespace trireme {
namespace {

class PowerSgdSum final : public CompressedSum {
 public:
  PowerSgdSum(Communicator& group, const GradientRange& range, int rank, CompressionMemory memory);
  void reduce(Stream& stream, std::int64_t update) override;
  std::int64_t bytes_sent() const override;

 private:
  struct Factors {
    Tensor gradient, residual;  // [rows, width]
    Tensor p, q;                // [rows, rank], [rank, width]
  };
  // A range of vectors and its offset in the message.
  struct Vectors {
    Tensor gradient, message;
  };
  Communicator& group_;
  int rank_;
  std::vector<Factors> factors_;
  std::vector<Vectors> vectors_;
  Tensor first_;       // first message: all p and the vectors, contiguous
  Tensor directions_;  // second message: all q; kept for the next update
};

PowerSgdSum::PowerSgdSum(Communicator& group, const GradientRange& range, int rank,
                         CompressionMemory memory)
    : group_(group), rank_(rank) {
  const Tensor& gradients = range.gradients;
  std::int64_t p_count = 0, q_count = 0, matrix_count = 0, end = 0;
  const auto add_vectors = [&](std::int64_t to) {
    if (to > end) vectors_.push_back({gradients.slice(end, to - end), {}});
  };
  for (const GradientRange::Matrix& matrix : range.matrices) {
    if (rank * (matrix.rows + matrix.width) >= matrix.count()) continue;
    add_vectors(matrix.first);
    end = matrix.first + matrix.count();
    const Shape shape{matrix.rows, matrix.width};
    factors_.push_back({gradients.slice(matrix.first, matrix.count()).reshaped(shape), {}, {}, {}});
    p_count += matrix.rows * rank;
    q_count += matrix.width * rank;
    matrix_count += matrix.count();
  }
  add_vectors(gradients.count());
  const std::int64_t vector_count = gradients.count() - matrix_count;
  const Tensor residual = memory.state.take({matrix_count}, gradients.dtype);
  directions_ = memory.state.take({q_count}, gradients.dtype);
  first_ = memory.messages.take({p_count + vector_count}, gradients.dtype);

  std::int64_t p_at = 0, q_at = 0, residual_at = 0;
  for (Factors& matrix : factors_) {
    const Shape shape = matrix.gradient.shape;
    matrix.residual = residual.slice(residual_at, shape.count()).reshaped(shape);
    matrix.p = first_.slice(p_at, shape[0] * rank).reshaped({shape[0], rank});
    matrix.q = directions_.slice(q_at, rank * shape[1]).reshaped({rank, shape[1]});
    residual_at += shape.count();
    p_at += matrix.p.count();
    q_at += matrix.q.count();
  }
  for (Vectors& run : vectors_) {
    run.message = first_.slice(p_at, run.gradient.count());
    p_at += run.message.count();
  }
}

void PowerSgdSum::reduce(Stream& stream, std::int64_t update) {
  // Not on a planning stream: these products do not count as model FLOPs.
  const auto for_matrices = [&](const auto& body) {
    if (!stream.executes()) return;
    for (const Factors& matrix : factors_) {
      with_elements(matrix.gradient, [&](auto* gradient) {
        using T = std::remove_pointer_t<decltype(gradient)>;
        body(matrix, gradient, matrix.p.as<T>(), matrix.q.as<T>());
      });
    }
  };
  for_matrices([&](const Factors& matrix, auto*, auto*, auto* q) {
    refresh_directions(q, rank_, matrix.q.width(), update);
    ops::add(stream, matrix.residual, matrix.residual, matrix.gradient);
    ops::gemm(stream, matrix.p, matrix.residual, matrix.q, {.transpose_b = true});
  });
  for (const Vectors& run : vectors_) ops::copy(stream, run.message, run.gradient);
  group_.all_reduce(stream, first_, Reduce::kSum);
  for (const Vectors& run : vectors_) ops::copy(stream, run.gradient, run.message);
  for_matrices([&](const Factors& matrix, auto*, auto* p, auto* q) {
    orthonormalize(p, matrix.p.rows(), rank_);
    ops::gemm(stream, matrix.q, matrix.p, matrix.residual, {.transpose_a = true});
    using T = std::remove_pointer_t<decltype(p)>;
    subtract_low_rank(matrix.residual.as<T>(), p, q, matrix.gradient.rows(),
                      matrix.gradient.width(), rank_);
  });
  if (directions_.count() > 0) group_.all_reduce(stream, directions_, Reduce::kSum);
  for_matrices([&](const Factors& matrix, auto* gradient, auto* p, auto* q) {
    low_rank_product(gradient, p, q, matrix.gradient.rows(), matrix.gradient.width(), rank_);
  });
}

std::int64_t PowerSgdSum::bytes_sent() const {
  return all_reduce_bytes(group_, first_.bytes()) + all_reduce_bytes(group_, directions_.bytes());
}

}  // namespace

std::unique_ptr<CompressedSum> make_power_sgd_sum(Communicator& group, const GradientRange& range,
                                                  int rank, CompressionMemory memory) {
  return std::make_unique<PowerSgdSum>(group, range, rank, memory);
}

}  // namespace trireme
