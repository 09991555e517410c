#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "tests/parallel/mpi_world.h"

namespace trireme::tests {
namespace {

// Open MPI writes without MSG_NOSIGNAL: the second write after a peer has closed its end would
// raise SIGPIPE.
TEST(LostPeer, ends_no_rank_that_still_writes_to_it) {
  ASSERT_GE(world().size(), 2);
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  ::close(ends[1]);
  errno = 0;
  EXPECT_EQ(::write(ends[0], "x", 1), -1);
  EXPECT_EQ(errno, EPIPE);
  ::close(ends[0]);
}

}  // namespace
}  // namespace trireme::tests
