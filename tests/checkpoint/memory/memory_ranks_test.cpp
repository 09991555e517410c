#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <numeric>

#include "checkpoint/format/boxes.h"
#include "checkpoint/memory/memory_store.h"
#include "checkpoint/write/division.h"
#include "tests/checkpoint/boxes_of.h"
#include "tests/checkpoint/state.h"
#include "tests/parallel/mpi_world.h"

// Two nodes, played on one machine by two folders.
namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;
using tests::all_ranks;
using tests::world;

// A rank's equal share of every tensor's elements; the smallest tensors every rank has.
class Share {
 public:
  Share(const State& state, int rank, int ranks) : state_(state) {
    for (const Piece& tensor : state.pieces()) {
      const std::int64_t count = tensor.shape.count();
      const bool whole = count < 100;
      const std::int64_t first = whole ? 0 : count * rank / ranks;
      const std::int64_t last = whole ? count : count * (rank + 1) / ranks;
      for (const Box& box : boxes_of(first, last - first, tensor.shape)) {
        Piece piece{tensor.tensor, tensor.dtype, tensor.shape, box, nullptr};
        memory_.emplace_back(piece.bytes());
        piece.data = memory_.back().data();
        pieces_.push_back(piece);
      }
    }
  }
  const std::vector<Piece>& pieces() const { return pieces_; }
  void take() const {
    visit([](std::byte* mine, const std::byte* whole, std::size_t n) {
      std::copy_n(whole, n, mine);
      return true;
    });
  }
  bool is_right() const {
    return visit([](const std::byte* mine, const std::byte* whole, std::size_t n) {
      return std::equal(mine, mine + n, whole);
    });
  }
  void clear() const {
    for (const Piece& piece : pieces_) std::fill_n(piece.data, piece.bytes(), std::byte{0xee});
  }

 private:
  template <class Visit>
  bool visit(Visit each) const {
    bool all = true;
    for (const Piece& piece : pieces_) {
      for (const Piece& tensor : state_.pieces()) {
        if (tensor.tensor != piece.tensor) continue;
        const std::size_t size = size_of(piece.dtype);
        for_each_run(piece.box, piece.box, tensor.box, [&](auto to, auto from, auto n) {
          all &= each(piece.data + std::size_t(to) * size, tensor.data + std::size_t(from) * size,
                      std::size_t(n) * size);
        });
      }
    }
    return all;
  }
  const State& state_;
  std::vector<std::vector<std::byte>> memory_;
  std::vector<Piece> pieces_;
};

// Of the ranks of a group, the first half on node 0.
struct Job {
  Job(const fs::path& scratch, const std::string& id, Communicator& ranks)
      : run(id),
        nodes(halves(ranks.size())),
        node(nodes.of(ranks.rank())),
        place(scratch / say("node-", node)),
        store(place, id, nodes, ranks) {}
  static Nodes halves(int ranks) {
    std::vector<int> of_rank;
    for (int rank = 0; rank < ranks; ++rank) of_rank.push_back(rank * 2 >= ranks && ranks > 1);
    return Nodes(of_rank);
  }
  void save(std::int64_t step) {
    Manifest manifest;
    manifest.run = run;
    manifest.step = step;
    manifest.written = now_text();
    store.save(manifest);
  }
  std::optional<Loaded> load(const Share& share) {
    share.clear();
    rejected.clear();
    return store.load_newest(share.pieces(), std::nullopt, rejected);
  }

  std::string run;
  Nodes nodes;
  int node;
  fs::path place;
  MemoryStore store;
  std::vector<std::string> rejected;
};

class MemoryOfTwoNodes : public testing::Test {
 protected:
  void SetUp() override {
    all_ = all_ranks();
    team_.emplace(*all_);
    const std::string both = team_->led([&] {
      scratch_.emplace();
      for (const char* node : {"node-0", "node-1"}) fs::create_directory(scratch_->path() / node);
      return scratch_->path().string() + " " + new_uuid();
    });
    where_ = both.substr(0, both.find(' '));
    run_ = both.substr(both.find(' ') + 1);
    share_.emplace(state_, all_->rank(), all_->size());
    share_->take();
  }
  void TearDown() override { meet(); }
  void meet() {
    Stream stream;
    all_->barrier(stream);
  }
  // By the leader, while the others wait.
  template <class Work>
  void alone(Work work) {
    meet();
    if (team_->leads()) work();
    meet();
  }
  fs::path shard(int node, int slot, int rank) const {
    return where_ / say("node-", node) / say("trireme-", ::geteuid(), "-", run_) /
           say("slot-", slot) /
           raw_shard_name(static_cast<std::size_t>(rank), static_cast<std::size_t>(all_->size()));
  }
  static void damage(const fs::path& path) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);
    file.put('!');
  }
  // Snapshots of steps 1 and 2, in slots 0 and 1, of a job that is gone.
  void leave_two() {
    Job job(where_, run_, *all_);
    job.store.prepare(share_->pieces(), std::uint64_t{1} << 40);
    job.save(1);
    job.save(2);
    meet();
  }

  std::unique_ptr<Communicator> all_;
  std::optional<Team> team_;
  std::optional<Scratch> scratch_;
  fs::path where_;
  std::string run_;
  State state_{21};
  std::optional<Share> share_;
};

TEST_F(MemoryOfTwoNodes, every_shard_is_on_both) {
  leave_two();
  for (int node = 0; node < 2; ++node) {
    for (int rank = 0; rank < all_->size(); ++rank) EXPECT_TRUE(fs::exists(shard(node, 1, rank)));
  }
  Job job(where_, run_, *all_);
  EXPECT_EQ(job.load(*share_)->step, 2);
  EXPECT_TRUE(share_->is_right());
  EXPECT_TRUE(job.rejected.empty());
}

TEST_F(MemoryOfTwoNodes, either_may_be_lost) {
  for (const int lost : {0, 1}) {
    leave_two();
    alone([&] {
      fs::remove_all(where_ / say("node-", lost));
      fs::create_directory(where_ / say("node-", lost));
    });
    Job job(where_, run_, *all_);
    EXPECT_EQ(job.load(*share_)->step, 2);
    EXPECT_TRUE(share_->is_right());
    meet();
    EXPECT_FALSE(fs::exists(job.store.folder().path() / "reading"));
    // and the new node keeps its part of what follows
    job.store.prepare(share_->pieces(), std::uint64_t{1} << 40);
    job.save(3);
    meet();
    EXPECT_TRUE(fs::exists(shard(lost, 0, all_->rank())));
    EXPECT_EQ(job.load(*share_)->step, 3);
    EXPECT_TRUE(share_->is_right());
    job.store.remove();
  }
}

TEST_F(MemoryOfTwoNodes, a_damaged_shard_is_told_and_its_copy_read) {
  leave_two();
  alone([&] { damage(shard(0, 1, 0)); });
  Job job(where_, run_, *all_);
  EXPECT_EQ(job.load(*share_)->step, 2);
  EXPECT_TRUE(share_->is_right());
  ASSERT_EQ(job.rejected.size(), 1u);
  EXPECT_NE(job.rejected[0].find(shard(0, 1, 0).string() + ": damaged"), std::string::npos)
      << job.rejected[0];
}

TEST_F(MemoryOfTwoNodes, with_a_copy_damaged_too_the_older_snapshot_is_read) {
  leave_two();
  alone([&] {
    damage(shard(0, 1, 0));
    damage(shard(1, 1, 0));
  });
  Job job(where_, run_, *all_);
  EXPECT_EQ(job.load(*share_)->step, 1);
  EXPECT_TRUE(share_->is_right());
  ASSERT_EQ(job.rejected.size(), 1u);
  EXPECT_NE(job.rejected[0].find("the snapshot of step 2 has no valid shard-00000"),
            std::string::npos)
      << job.rejected[0];
}

TEST_F(MemoryOfTwoNodes, one_manifest_is_enough_where_all_shards_are_whole) {
  leave_two();
  alone([&] { fs::remove(shard(0, 1, 0).parent_path() / "manifest.json"); });
  Job job(where_, run_, *all_);
  EXPECT_EQ(job.load(*share_)->step, 2);
  EXPECT_TRUE(share_->is_right());
}

TEST_F(MemoryOfTwoNodes, a_job_of_other_ranks_reads_it_and_goes_on) {
  leave_two();
  const int fewer = all_->size() / 2;
  std::vector<int> group;
  const bool first = all_->rank() < fewer;
  for (int rank = first ? 0 : fewer; rank < (first ? fewer : all_->size()); ++rank) {
    group.push_back(rank);
  }
  const auto some = world().split("some", group);
  if (first) {
    Job job(where_, run_, *some);
    const Share share(state_, some->rank(), some->size());
    EXPECT_EQ(job.load(share)->step, 2);
    EXPECT_TRUE(share.is_right());
    job.store.prepare(share.pieces(), std::uint64_t{1} << 40);
    for (const int step : {3, 4, 5}) job.save(step);
    EXPECT_EQ(job.load(share)->step, 5);
    EXPECT_TRUE(share.is_right());
    EXPECT_FALSE(fs::exists(shard(0, 0, 0)));
    EXPECT_FALSE(fs::exists(shard(0, 1, 0)));
  }
  meet();
}

TEST_F(MemoryOfTwoNodes, a_node_without_room_stops_all_from_saving) {
  Job job(where_, run_, *all_);
  const std::uint64_t available = job.node == 1 ? 100 : std::uint64_t{1} << 40;
  EXPECT_THROW(job.store.prepare(share_->pieces(), available), EnvironmentError);
}

}  // namespace
}  // namespace trireme::checkpoint
