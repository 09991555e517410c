#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/parallel/mpi_world.h"
#ifdef TRIREME_TEST_STAGED
#include "parallel/comm/staged_communicator.h"
#endif

namespace trireme::tests {
namespace {

std::unique_ptr<World>& only_world() {
  static std::unique_ptr<World> world;
  return world;
}

// The other ranks are silent but for their failures. After a fatal one the ranks are no
// longer in the same call, and would wait for each other.
class RankListener : public testing::EmptyTestEventListener {
 public:
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    if (world().rank() > 0) {
      std::fprintf(stderr, "rank %d: %s:%d: %s\n", world().rank(),
                   result.file_name() ? result.file_name() : "", result.line_number(),
                   result.message());
    }
    if (result.fatally_failed()) world().abort(ExitCode::kInternal);
  }
};

}  // namespace

World& world() {
  return *only_world();
}

std::unique_ptr<Communicator> all_ranks(std::size_t buffer_bytes) {
  std::vector<int> ranks(static_cast<std::size_t>(world().size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  auto group = world().split("all_ranks", ranks, buffer_bytes);
#ifdef TRIREME_TEST_STAGED
  group = std::make_unique<StagedCommunicator>(std::move(group), Device{}, buffer_bytes);
#endif
  return group;
}

int run_all_tests(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  only_world() = std::make_unique<World>(environment_variable);
  testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
  if (world().rank() > 0) delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new RankListener);
  const int code = RUN_ALL_TESTS();
  only_world().reset();
  return code;
}

}  // namespace trireme::tests

int main(int argc, char** argv) {
  return trireme::tests::run_all_tests(argc, argv);
}
