#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "model/ops/direction.h"
#include "model/ops/elementwise.h"
#include "model/ops/gemm.h"
#include "model/ops/norm_ratio.h"
#include "model/ops/optimizer.h"
#include "model/tensor/arena.h"
#include "parallel/optimizer/optimizers.h"
#include "parallel/optimizer/strided_of.h"

namespace trireme {
namespace {

// Approximates the nearest orthogonal matrix by a quintic Newton-Schulz iteration that brings every
// singular value near 1, with the published coefficients (Jordan et al., "Muon: An optimizer for
// hidden layers in neural networks", 2024). Matrix products only.
class Orthogonalizer {
 public:
  // Allocates workspace for matrices of at most `most` elements whose smaller side is at most
  // `side`.
  Orthogonalizer(std::int64_t most, std::int64_t side, DType dtype, Arena& workspace);

  // Input buffer of run() for a matrix of `count` elements.
  Tensor matrix(std::int64_t count) const { return x_.slice(0, count); }
  // Orthogonalizes the matrix [rows, columns] in the input buffer; the result is valid until the
  // buffer is written again.
  Tensor run(Stream& stream, std::int64_t rows, std::int64_t columns, std::int64_t steps) const;

 private:
  Tensor x_, y_;              // [most]
  Tensor gram_, polynomial_;  // [side * side]
  Tensor squares_;            // [chunks] float64
  Tensor inverse_;            // [1]
};

constexpr double kLinear = 3.4445, kCubic = -4.7750, kQuintic = 2.0315, kEpsilon = 1e-7;

Orthogonalizer::Orthogonalizer(std::int64_t most, std::int64_t side, DType dtype, Arena& workspace)
    : x_(workspace.take({most}, dtype)),
      y_(workspace.take({most}, dtype)),
      gram_(workspace.take({side * side}, dtype)),
      polynomial_(workspace.take({side * side}, dtype)),
      squares_(workspace.take({ops::norm_chunks(most)}, DType::kF64)),
      inverse_(workspace.take({1}, dtype)) {}

Tensor Orthogonalizer::run(Stream& stream, std::int64_t rows, std::int64_t columns,
                           std::int64_t steps) const {
  const std::int64_t count = rows * columns, side = std::min(rows, columns);
  const bool tall = rows > columns;
  Tensor x = x_.slice(0, count).reshaped({rows, columns});
  Tensor y = y_.slice(0, count).reshaped({rows, columns});
  const Tensor gram = gram_.slice(0, side * side).reshaped({side, side});
  const Tensor polynomial = polynomial_.slice(0, side * side).reshaped({side, side});
  const Tensor squares = squares_.slice(0, ops::norm_chunks(count));
  ops::zero(stream, squares);
  ops::add_chunk_squares(stream, squares, x);
  ops::inverse_norm(stream, inverse_, squares, kEpsilon);
  ops::axpby(stream, x, x, {.factor = inverse_});
  for (std::int64_t step = 0; step < steps; ++step) {
    // With the Gram matrix of the smaller side: (a + b x x' + c (x x')^2) x = x (a + b x' x + c (x'
    // x)^2).
    ops::gemm(stream, gram, x, x, {.transpose_a = tall, .transpose_b = !tall});
    ops::gemm(stream, polynomial, gram, gram, {});
    ops::axpby(stream, polynomial, gram, {.alpha = kCubic, .beta = kQuintic});
    ops::gemm(stream, y, tall ? x : polynomial, tall ? polynomial : x, {});
    ops::axpby(stream, y, x, {.alpha = kLinear, .beta = 1});
    std::swap(x, y);
  }
  return x;
}

constexpr std::array kMuonStates{"muon.momentum"};

// Matrices of the blocks: not embeddings, head or vectors.
bool is_hidden_matrix(const ParamSpec& spec) {
  return spec.shape.rank() == 2 && spec.name.starts_with("layers.");
}

class MuonOptimizer final : public Optimizer {
 public:
  MuonOptimizer(const OptimizerOptions& options, UpdateRanks ranks)
      : options_(options), windows_(options), ranks_(ranks) {
    require(options.adjust_lr == "match_rms_adamw" || options.adjust_lr == "original",
            "adjust_lr is ", options.adjust_lr);
  }

  std::vector<State> state(const ParamSpec& spec, DType accumulator) const override {
    const DType dtype = windows_.state_dtype(accumulator);
    return is_hidden_matrix(spec) ? states_of(kMuonStates, dtype) : states_of(kAdamStates, dtype);
  }
  void prepare(const ParamStore& params, std::span<const ParamShard> shards,
               Arena& workspace) override;
  void update(const UpdateStep& step, std::span<const ParamShard> shards) override;

 private:
  struct Matrix {
    std::int64_t rows, columns;
    std::vector<std::size_t> shards;  // indices of its shards on this rank
    std::int64_t count() const { return rows * columns; }
  };
  int workers() const { return ranks_.shard.size() * ranks_.tensor.size(); }
  // Index of this rank among the workers; ranks of a shard group are `tensor.size()` apart.
  int place() const { return ranks_.shard.rank() * ranks_.tensor.size() + ranks_.tensor.rank(); }
  void assemble(Stream& stream, const Matrix& matrix, std::span<const ParamShard> shards) const;
  void share(Stream& stream, const Matrix& matrix, int worker,
             std::span<const ParamShard> shards) const;
  void follow(const UpdateStep& step, const Matrix& matrix,
              std::span<const ParamShard> shards) const;
  Tensor transit(const Matrix& matrix) const { return transit_.slice(0, matrix.count()); }

  OptimizerOptions options_;
  Windows windows_;
  UpdateRanks ranks_;
  std::vector<Matrix> matrices_;  // by descending size; worker i % workers() gets matrix i
  std::optional<Orthogonalizer> orthogonalizer_;
  Tensor transit_;  // buffer for a whole matrix
};

void MuonOptimizer::prepare(const ParamStore& params, std::span<const ParamShard> shards,
                            Arena& workspace) {
  windows_.prepare(shards, workspace);
  std::map<std::string, std::vector<std::size_t>> held;
  for (std::size_t i = 0; i < shards.size(); ++i) held[shards[i].param->spec.name].push_back(i);
  std::int64_t most = 0, side = 0;
  for (const Weight& weight : params.weights()) {
    for (const Param& param : weight.parts) {
      if (!is_hidden_matrix(param.spec)) continue;
      const Shape& shape = param.spec.shape;
      matrices_.push_back({shape[0], shape[1], held[param.spec.name]});
      most = std::max(most, shape.count());
      side = std::max(side, std::min(shape[0], shape[1]));
    }
  }
  std::stable_sort(matrices_.begin(), matrices_.end(),
                   [](const Matrix& a, const Matrix& b) { return a.count() > b.count(); });
  const DType dtype = params.grads().dtype;
  orthogonalizer_.emplace(most, side, dtype, workspace);
  transit_ = workspace.take({most}, dtype);
}

void MuonOptimizer::update(const UpdateStep& step, std::span<const ParamShard> shards) {
  Stream& stream = step.stream;
  UpdateStep adamw = step;
  if (options_.adamw_lr > 0) adamw.learning_rate *= options_.adamw_lr / options_.lr;
  for (const ParamShard& shard : shards) {
    if (!is_hidden_matrix(shard.param->spec)) {
      update_by_adamw(windows_, options_, adamw, shard);
      continue;
    }
    windows_.each(step, shard, kMuonStates, Windows::Writes::kState,
                  [&](const UpdateTensors& tensors) {
                    ops::momentum_direction(stream, tensors, step.grad_scale, options_.momentum,
                                            options_.nesterov);
                  });
  }
  // In rounds: every worker gets one matrix per round, all of similar size.
  const auto group = static_cast<std::size_t>(workers());
  for (std::size_t first = 0; first < matrices_.size(); first += group) {
    const std::span round =
        std::span(matrices_).subspan(first, std::min(group, matrices_.size() - first));
    const auto mine = static_cast<std::size_t>(place());
    for (std::size_t worker = 0; worker < round.size(); ++worker) {
      assemble(stream, round[worker], shards);
      if (worker == mine) {
        const Tensor into = orthogonalizer_->matrix(round[worker].count());
        ops::copy(stream, into, transit(round[worker]));
      }
    }
    Tensor orthogonal;
    if (mine < round.size()) {
      orthogonal =
          orthogonalizer_->run(stream, round[mine].rows, round[mine].columns, options_.ns_steps);
    }
    for (std::size_t worker = 0; worker < round.size(); ++worker) {
      if (worker == mine) ops::copy(stream, transit(round[worker]), orthogonal);
      share(stream, round[worker], static_cast<int>(worker), shards);
      follow(step, round[worker], shards);
    }
  }
}

// Gathers the matrix from all ranks into `transit_`. Elements of other ranks are zero here, so a
// sum assembles them exactly.
void MuonOptimizer::assemble(Stream& stream, const Matrix& matrix,
                             std::span<const ParamShard> shards) const {
  const Tensor whole = transit(matrix);
  ops::zero(stream, whole);
  for (const std::size_t i : matrix.shards) {
    const ParamShard& shard = shards[i];
    if (!counts_among(ranks_.tensor, *shard.param)) continue;
    ops::scatter_strided(stream, whole, shard.grad, strided_of(*shard.param, shard.first));
  }
  ranks_.shard.all_reduce(stream, whole, Reduce::kSum);
  ranks_.tensor.all_reduce(stream, whole, Reduce::kSum);
}

// Scatters the worker's result to all ranks as their directions.
void MuonOptimizer::share(Stream& stream, const Matrix& matrix, int worker,
                          std::span<const ParamShard> shards) const {
  const Tensor whole = transit(matrix);
  const int shard = worker / ranks_.tensor.size(), tensor = worker % ranks_.tensor.size();
  if (ranks_.shard.rank() == shard) ranks_.tensor.broadcast(stream, whole, tensor);
  ranks_.shard.broadcast(stream, whole, shard);
  for (const std::size_t i : matrix.shards) {
    ops::gather_strided(stream, shards[i].grad, whole,
                        strided_of(*shards[i].param, shards[i].first));
  }
}

void MuonOptimizer::follow(const UpdateStep& step, const Matrix& matrix,
                           std::span<const ParamShard> shards) const {
  const auto rows = static_cast<double>(matrix.rows), columns = static_cast<double>(matrix.columns);
  // "original" keeps the spectral norm of an update of this shape; the other option matches AdamW's
  // root mean square, so that both use one learning rate (Liu et al. 2025).
  const double adjustment = options_.adjust_lr == "original"
                                ? std::sqrt(std::max(1.0, rows / columns))
                                : 0.2 * std::sqrt(std::max(rows, columns));
  for (const std::size_t i : matrix.shards) {
    const double decay = weight_decay_of(options_, shards[i].param->spec);
    const ops::DirectionStep how{.rate = step.learning_rate * adjustment,
                                 .decay = step.learning_rate * decay};
    windows_.each(step, shards[i], {}, Windows::Writes::kWeights,
                  [&](const UpdateTensors& tensors) {
                    ops::apply_direction(step.stream, tensors, step.grad_scale, how);
                  });
  }
}

}  // namespace

// Muon (Jordan et al. 2024) for the matrices of the blocks, AdamW for the rest. Each matrix is
// gathered from all ranks, orthogonalized by one rank, and scattered again; ranks take turns by
// matrix size.
NamedOptimizer muon_optimizer() {
  return {.name = "Muon",
          .make = make_as<MuonOptimizer>,
          .reads = {"beta1", "beta2", "eps", "momentum", "nesterov", "ns_steps", "adjust_lr",
                    "adamw_lr"},
          .defaults = {.momentum = 0.95, .nesterov = true},
          .spans_ranks = true,
          .rounding = 1e-3};  // amplified by the Newton-Schulz iteration
}

}  // namespace trireme
