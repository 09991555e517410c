// How fast two or more ranks of one host exchange: bytes of the whole tensor a second, the
// median of interleaved rounds, of the calls of a group whose tensors lie in shared memory,
// the same calls elsewhere (over MPI), and MPI's own.
//   mpirun -n 2 build/cpu/tests/bench/exchange_bench
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "model/device/memory.h"
#include "model/tensor/arena.h"
#include "parallel/comm/world.h"

namespace trireme {
namespace {

constexpr int kRounds = 9;
constexpr std::int64_t kMiB = 1 << 20;

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Way {
  std::string name;
  std::function<void()> work;
  std::vector<double> seconds;
};

void measure(World& world, Communicator& group, std::int64_t bytes) {
  Stream stream;
  const std::int64_t part_count = bytes / 4 / group.size(), count = part_count * group.size();
  const auto shared_memory = world.share(static_cast<std::size_t>(bytes));
  require(shared_memory != nullptr, "the ranks share no memory");
  Arena shared_arena(shared_memory->data(), shared_memory->bytes());
  Arena own_arena(static_cast<std::size_t>(bytes));
  Arena part_arena(static_cast<std::size_t>(bytes));
  const Tensor shared = shared_arena.take(Shape{count}), own = own_arena.take(Shape{count});
  const Tensor part = part_arena.take(Shape{part_count});
  // Memory that nobody has written to is one page of zeros.
  std::fill_n(shared.as<float>(), count, 1e-6f);
  std::fill_n(own.as<float>(), count, 1e-6f);
  const auto place = [&](const Tensor& whole) {
    return whole.slice(part_count * group.rank(), part_count);
  };
  const int mpi_part = static_cast<int>(part_count);
  std::vector<Way> ways{
      {"reduce-scatter, shared memory",
       [&] { group.reduce_scatter(stream, place(shared), shared); },
       {}},
      {"reduce-scatter, shared, apart", [&] { group.reduce_scatter(stream, part, shared); }, {}},
      {"reduce-scatter, shared, beside",
       [&] { group.start_reduce_scatter(stream, place(shared), shared).wait(); },
       {}},
      {"reduce-scatter, exchange over MPI",
       [&] { group.reduce_scatter(stream, place(own), own); },
       {}},
      {"reduce-scatter, MPI's own",
       [&] {
         MPI_Reduce_scatter_block(own.data, part.data, mpi_part, MPI_FLOAT, MPI_SUM,
                                  MPI_COMM_WORLD);
       },
       {}},
      {"all-gather, shared memory", [&] { group.all_gather(stream, shared, place(shared)); }, {}},
      {"all-gather, over MPI", [&] { group.all_gather(stream, own, place(own)); }, {}},
      {"all-reduce, shared memory", [&] { group.all_reduce(stream, shared, Reduce::kSum); }, {}},
      {"all-reduce, over MPI", [&] { group.all_reduce(stream, own, Reduce::kSum); }, {}}};
  for (int round = 0; round <= kRounds; ++round) {
    for (Way& way : ways) {
      group.barrier(stream);
      const double seconds = seconds_of([&] {
        way.work();
        group.barrier(stream);
      });
      if (round > 0) way.seconds.push_back(seconds);  // the first touches the memory
    }
  }
  if (group.rank() > 0) return;
  for (Way& way : ways) {
    std::nth_element(way.seconds.begin(), way.seconds.begin() + kRounds / 2, way.seconds.end());
    std::printf("%4ld MiB  %-36s %6.2f GB/s\n", static_cast<long>(bytes / kMiB), way.name.c_str(),
                static_cast<double>(bytes) / 1e9 / way.seconds[kRounds / 2]);
  }
}

}  // namespace
}  // namespace trireme

int main() {
  using namespace trireme;
  World world(environment_variable);
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto group = world.split("all_ranks", ranks);
  for (const std::int64_t mib : {1, 16, 475}) measure(world, *group, mib * kMiB);
  return 0;
}
