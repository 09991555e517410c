#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "checkpoint/store/commit.h"
#include "model/base/error.h"
#include "tests/checkpoint/state.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

// Runs a command and gives its exit code and what it printed.
std::pair<int, std::string> run_reader(const std::string& command) {
  std::string said;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  for (int c = 0; (c = std::fgetc(pipe)) != EOF;) said += static_cast<char>(c);
  return {WEXITSTATUS(::pclose(pipe)), said};
}

TEST(Hdf5, other_peoples_reader_sees_every_tensor_of_every_cut) {
  if (run_reader("/usr/bin/python3 -c 'import h5py'").first != 0) {
    GTEST_SKIP() << "/usr/bin/python3 has no h5py (Debian: python3-h5py)";
  }
  const Scratch scratch;
  const State state(31);
  const fs::path expected = scratch.path() / "expected";
  fs::create_directories(expected);
  for (const Piece& piece : state.pieces()) {
    std::string name = piece.tensor;
    std::replace(name.begin(), name.end(), '/', '+');
    std::ofstream(expected / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(piece.data), std::streamsize(piece.bytes()));
  }
  // Two ranks: the first has the upper rows of everything, the second the rest.
  std::vector<std::vector<Piece>> ranks(2);
  for (const Piece& whole : state.pieces()) {
    const std::int64_t half = whole.shape[0] / 2;
    const std::size_t row = whole.bytes() / std::size_t(whole.shape[0]);
    for (const bool second : {false, true}) {
      Piece piece = whole;
      piece.box.from[0] = second ? half : 0;
      piece.box.extent[0] = second ? whole.shape[0] - half : half;
      piece.data += second ? std::size_t(half) * row : 0;
      if (piece.box.extent[0] > 0) ranks[second].push_back(piece);
    }
  }
  Manifest manifest;
  manifest.run = new_uuid();
  manifest.step = 7;
  {
    PartialCheckpoint partial(scratch.path(), 7);
    write_checkpoint(partial.path(), manifest, ranks);
    publish(partial.path(), 7);
  }
  {
    const Lease lease(scratch.path() / "one");
    Store store(scratch.path() / "one", lease);
    commit(store, state, 1);
  }
  // Wherever the folder is moved, its parts find each other.
  fs::rename(scratch.path() / "step-00000007", scratch.path() / "moved");
  for (const fs::path& folder :
       {scratch.path() / "moved", scratch.path() / "one/checkpoints/step-00000001"}) {
    const auto [code, said] = run_reader(say("cd / && /usr/bin/python3 ", TRIREME_HDF5_READER, " ",
                                             folder.string(), " ", expected.string()));
    EXPECT_EQ(code, 0) << said;
    EXPECT_EQ(said, "7 tensors agree\n");
  }
}

}  // namespace
}  // namespace trireme::checkpoint
