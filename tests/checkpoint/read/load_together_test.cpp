#include <gtest/gtest.h>

#include <deque>
#include <fstream>
#include <functional>
#include <thread>

#include "checkpoint/read/load.h"
#include "checkpoint/read/read_plan.h"
#include "model/base/error.h"
#include "tests/checkpoint/layouts.h"

namespace trireme::checkpoint {
namespace {

constexpr std::int64_t kLarge = 1200;  // the state's first tensor has twelve blocks

// What the ranks of one host do, each a thread here.
void on_host(int ranks, const std::function<void(std::size_t, HostPeers&)>& work) {
  std::deque<SharedMemory::File> memory, pages;
  std::vector<SharedMemory::File::Place> memories, meetings;
  for (int rank = 0; rank < ranks; ++rank) {
    memories.push_back(memory.emplace_back(shared_bytes()).place());
    meetings.push_back(pages.emplace_back(comm::SharedBarrier::bytes(ranks)).place());
  }
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      FlightRecorder ledger;
      ledger.begin(rank, ranks, "host");
      HostPeers host(SharedMemory::map(memories, rank), SharedMemory::map(meetings, rank), rank,
                     rank, ledger);
      work(static_cast<std::size_t>(rank), host);
    });
  }
}

// A checkpoint that one rank has written, to be read by the ranks of other layouts.
class Together : public testing::Test {
 protected:
  Together() : folder_(write(scratch_.path(), state_, {0, 1, 1}, 1)) {}

  Manifest manifest() const { return read_manifest(folder_); }
  // Of each rank: what went wrong, "another" where that was elsewhere, or nothing. The ranks
  // read what is in `folders`.
  std::vector<std::string> load(const Manifest& manifest, Ranks& ranks,
                                const std::vector<std::filesystem::path>& folders) const {
    std::vector<std::span<const Piece>> wanted(ranks.pieces().begin(), ranks.pieces().end());
    std::vector<std::string> verdicts(wanted.size());
    on_host(static_cast<int>(wanted.size()), [&](std::size_t rank, HostPeers& host) {
      try {
        if (!load_together(folders[rank], manifest, wanted, host)) verdicts[rank] = "another";
      } catch (const Error& error) {
        verdicts[rank] = error.what();
      }
    });
    return verdicts;
  }
  void expect_right(const Manifest& manifest, Layout layout) const {
    State loaded(0, kLarge);
    Ranks ranks(loaded, layout);
    const std::size_t count = ranks.pieces().size();
    EXPECT_EQ(load(manifest, ranks, std::vector(count, folder_)), std::vector<std::string>(count));
    ranks.copy(loaded, true);
    EXPECT_TRUE(loaded == state_) << layout.dim << ": " << layout.slices << "x" << layout.ranges;
  }
  const StoredTensor& first_of(const Manifest& manifest) const {
    return *manifest.find(state_.pieces().front().tensor);
  }
  void flip(std::uint64_t at) const {
    std::fstream file(folder_ / "shard-00000-of-00001.h5",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
  }

  const Scratch scratch_;
  const State state_{21, kLarge};
  const std::filesystem::path folder_;
};

TEST_F(Together, ranks_of_a_host_read_what_others_wrote) {
  for (const Layout& layout : {Layout{1, 2, 1}, {1, 3, 1}, {0, 3, 1}, {0, 1, 2}, {1, 2, 2}}) {
    expect_right(manifest(), layout);
  }
}

TEST_F(Together, rectangles_without_blocks_go_round_in_parts) {
  Manifest without = manifest();
  for (StoredTensor& tensor : without.tensors) {
    for (Rectangle& stored : tensor.rectangles) stored.blocks.clear();
  }
  expect_right(without, {1, 2, 1});
}

// All ranks' pieces of a layout where every row is cut, or all have everything.
TEST_F(Together, what_several_need_is_read_once) {
  const Manifest stored = manifest();
  const StoredTensor& large = first_of(stored);
  for (const bool replicas : {false, true}) {
    State loaded(0, kLarge);
    Ranks ranks(loaded, replicas ? Layout{0, 1, 1} : Layout{1, 2, 1});
    const auto& pieces = ranks.pieces();
    const std::vector<std::span<const Piece>> wanted{pieces.front(), pieces.back()};
    std::vector<int> reads(large.rectangles.front().blocks.size());
    for (std::size_t rank = 0; rank < 2; ++rank) {
      const ReadPlan plan = plan_reads(stored, wanted, rank);
      std::vector<ReadPart> parts = plan.own;
      parts.insert(parts.end(), plan.shown[rank].begin(), plan.shown[rank].end());
      std::uint64_t bytes = 0;
      for (const ReadPart& part : parts) {
        if (part.tensor != &large) continue;
        bytes += part.bytes();
        for (std::uint64_t at = part.from; at < part.to; at += 1 << 20) ++reads[at >> 20];
      }
      EXPECT_GT(bytes, large.bytes() / 4) << "the other rank does it all";
      EXPECT_EQ(plan.shown, plan_reads(stored, wanted, 1 - rank).shown);
    }
    EXPECT_EQ(reads, std::vector(reads.size(), 1));
  }
}

// By whichever rank it is found, it is told once and nobody waits.
TEST_F(Together, damage_ends_the_load_of_all) {
  const Manifest stored = manifest();
  const Rectangle& large = first_of(stored).rectangles.front();
  for (const Layout& layout : {Layout{1, 2, 1}, {0, 2, 1}}) {
    for (std::uint64_t at = 12345; at < large.bytes; at += 5 << 20) {
      flip(large.offset + at);
      State loaded(0, kLarge);
      Ranks ranks(loaded, layout);
      const std::size_t count = ranks.pieces().size();
      const auto verdicts = load(stored, ranks, std::vector(count, folder_));
      std::size_t told = 0;
      for (const std::string& verdict : verdicts) {
        if (verdict == "another") continue;
        ++told;
        EXPECT_NE(verdict.find("shard-00000-of-00001.h5: damaged: tensor model/embed.weight"),
                  std::string::npos)
            << verdict;
      }
      EXPECT_EQ(told, 1u);
      flip(large.offset + at);
    }
  }
  expect_right(stored, {1, 2, 1});
}

TEST_F(Together, a_rank_that_cannot_read_ends_the_load_of_all) {
  for (std::size_t without = 0; without < 3; ++without) {
    State loaded(0, kLarge);
    Ranks ranks(loaded, {1, 3, 1});
    std::vector<std::filesystem::path> folders(3, folder_);
    folders[without] = scratch_.path() / "nowhere";
    const auto verdicts = load(manifest(), ranks, folders);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      if (rank == without) continue;
      EXPECT_EQ(verdicts[rank], "another");
    }
    EXPECT_NE(verdicts[without].find("nowhere"), std::string::npos) << verdicts[without];
  }
}

}  // namespace
}  // namespace trireme::checkpoint
