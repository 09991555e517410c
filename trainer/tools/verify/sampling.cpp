#include "trainer/tools/verify/sampling.h"

#include <algorithm>
#include <cmath>

#include "model/tensor/host_tensor.h"
#include "trainer/tools/verify/elements.h"

namespace trireme::verify {
namespace {

constexpr std::int64_t kMost = 16384, kMostOfAllRanks = std::int64_t{1} << 22;  // elements

struct Grid {
  std::int64_t rows, columns;          // of the grid
  std::int64_t all_rows, all_columns;  // of the parameter
};

Grid grid_of(const Shape& shape, int ranks) {
  const std::int64_t most = std::clamp(kMostOfAllRanks / ranks, std::int64_t{1}, kMost);
  Grid grid{0, 0, shape[0], shape.count() / std::max<std::int64_t>(shape[0], 1)};
  grid.rows = std::min(grid.all_rows, most);
  grid.columns = std::min(grid.all_columns, std::max<std::int64_t>(most / grid.rows, 1));
  return grid;
}

}  // namespace

std::vector<std::int64_t> Sampling::elements(std::size_t tensor) const {
  const Grid grid = grid_of(tensors_[tensor].shape, ranks_.size());
  std::vector<std::int64_t> elements;
  for (std::int64_t row = 0; row < grid.rows; ++row) {
    for (std::int64_t column = 0; column < grid.columns; ++column) {
      elements.push_back(row * grid.all_rows / grid.rows * grid.all_columns +
                         column * grid.all_columns / grid.columns);
    }
  }
  return elements;
}

std::vector<double> Sampling::values(const Subject& of, const std::vector<LocalRange>& held,
                                     std::size_t tensor, double absent, bool primary_only) const {
  const std::vector<std::int64_t> wanted = elements(tensor);
  std::vector<double> values(wanted.size(), absent);
  for (const LocalRange& run : held) {
    if (run.tensor != tensor || (primary_only && !run.is_primary)) continue;
    for_each_range(*run.param, run.first, run.data.count(),
                   [&](std::int64_t here, std::int64_t logical, std::int64_t count) {
                     auto at = std::lower_bound(wanted.begin(), wanted.end(), logical);
                     for (; at != wanted.end() && *at < logical + count; ++at) {
                       const Tensor one = run.data.slice(here + *at - logical, 1);
                       values[at - wanted.begin()] = read_elements(of.stream(), one).front();
                     }
                   });
  }
  return values;
}

std::vector<double> Sampling::expected(std::size_t tensor, Quantity quantity,
                                       const std::string& moment) const {
  std::vector<double> found(elements(tensor).size());
  if (reference_.takes_part()) {
    const bool is_gradient = quantity == Quantity::kGradient;
    const Quantity stored = quantity == Quantity::kValue ? Quantity::kMaster : quantity;
    found = values(reference_, held_by(reference_, tensors_, stored, moment), tensor, 0, true);
    for (double& value : found) value /= is_gradient ? reference_.loss_scale() : 1;
  }
  Stream stream;
  ranks_.all_reduce(stream, host_tensor(std::span(found)), Reduce::kSum);
  return found;
}

std::vector<double> Sampling::initial(std::size_t tensor) const {
  const Subject& any = subject_.takes_part() ? subject_ : reference_;
  std::vector<double> values;
  for (const Weight& weight : any.engine().model().whole().weights()) {
    for (const Param& param : weight.parts) {
      if (param.spec.name != tensors_[tensor].name) continue;
      for (const std::int64_t element : elements(tensor)) {
        float value[] = {0};
        fill_initial(param.spec, static_cast<std::uint64_t>(any.config().job.seed), element, value);
        values.push_back(value[0]);
      }
    }
  }
  return values;
}

LayoutSizes Sampling::layout_sizes() const {
  const ParallelismConfig& layout = subject_.config().parallelism;
  LayoutSizes sizes{.pipeline = layout.pipeline,
                    .data = data_ranks(layout),
                    .tensor = layout.tensor,
                    .context = layout.context,
                    .expert = layout.expert,
                    .micro_batches = micro_batches_per_step(subject_.config()) * data_ranks(layout),
                    .data_rank_of = {}};
  const bool shared = layout.zero >= 2 && layout.data_shard * layout.context > 1;
  const MicroBatches numbers{sizes.data, micro_batches_per_step(subject_.config()), shared};
  sizes.data_rank_of.resize(sizes.micro_batches);
  for (std::int64_t rank = 0; rank < numbers.ranks; ++rank) {
    for (std::int64_t own_one = 0; own_one < numbers.of_each; ++own_one) {
      sizes.data_rank_of[numbers.number(rank, own_one)] = rank;
    }
  }
  return sizes;
}

Evidence Sampling::evidence(std::size_t tensor, Quantity quantity, double tolerance,
                            const std::string& moment) {
  const Tensors::Entry& entry = tensors_[tensor];
  const Grid grid = grid_of(entry.shape, ranks_.size());
  Evidence found{.tensor = entry.name,
                 .quantity = quantity,
                 .shape = entry.shape,
                 .rows = grid.rows,
                 .columns = grid.columns,
                 .all_rows = grid.rows == grid.all_rows,
                 .part_rows = entry.part_rows,
                 .tolerance = tolerance,
                 .expected = expected(tensor, quantity, moment),
                 .holders = {},
                 .by_micro_batch = {},
                 .before = {},
                 .layout = {}};
  // Of this rank: coordinates, whether it has primary elements, owned values, leftover values.
  constexpr std::size_t kPlace = 6;
  const std::size_t count = found.expected.size(), each = kPlace + 2 * count;
  std::vector<double> own(each, std::nan(""));
  if (subject_.takes_part()) {
    const std::vector<LocalRange> held = held_by(subject_, tensors_, quantity, moment);
    const RankGroups& groups = subject_.groups();
    const bool is_primary = std::any_of(held.begin(), held.end(), [&](const LocalRange& run) {
      return run.tensor == tensor && run.is_primary;
    });
    const double place[] = {1,
                            static_cast<double>(groups.pp_forward->rank()),
                            static_cast<double>(groups.data->rank()),
                            static_cast<double>(groups.tensor->rank()),
                            static_cast<double>(groups.context->rank()),
                            is_primary ? 1.0 : 0.0};
    std::copy(std::begin(place), std::end(place), own.begin());
    std::vector<double> both = values(subject_, held, tensor, std::nan(""), false);
    if (quantity == Quantity::kGradient) {
      const std::vector<double> rest =
          values(subject_, not_owned_by(subject_, tensors_), tensor, std::nan(""), false);
      both.insert(both.end(), rest.begin(), rest.end());
      for (double& value : both) value /= subject_.loss_scale();
    }
    std::copy(both.begin(), both.end(), own.begin() + kPlace);
  }
  std::vector<double> all(each * ranks_.size());
  Stream stream;
  ranks_.all_gather(stream, host_tensor(std::span(all)), host_tensor(std::span(own)));
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const auto from = all.begin() + static_cast<std::ptrdiff_t>(each) * rank;
    if (std::isnan(from[0])) continue;
    const auto owned = from + kPlace, rest = owned + static_cast<std::ptrdiff_t>(count);
    found.holders.push_back(
        {.coordinates = {rank, static_cast<int>(from[1]), static_cast<int>(from[2]),
                         static_cast<int>(from[3]), static_cast<int>(from[4])},
         .owned = {owned, rest},
         .left_over = {rest, rest + static_cast<std::ptrdiff_t>(count)},
         .is_primary = from[5] != 0});
  }
  found.layout = layout_sizes();
  return found;
}

}  // namespace trireme::verify
