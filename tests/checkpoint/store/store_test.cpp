#include "checkpoint/store/store.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <vector>

#include "checkpoint/read/load.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "tests/checkpoint/state.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void flip_byte(const fs::path& path, std::uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(byte ^ 0x10));
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Store, what_is_loaded_is_what_was_committed) {
  const Scratch scratch;
  const State state(7);
  {
    const Lease lease(scratch.path());
    Store store(scratch.path(), lease);
    State nothing;
    EXPECT_FALSE(store.load_newest(nothing.pieces()).has_value());
    commit(store, state, 100);
  }
  State loaded;
  Store store(scratch.path());
  const auto found = store.load_newest(loaded.pieces());
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->step, 100);
  EXPECT_TRUE(found->rejected.empty());
  EXPECT_EQ(found->manifest.config, "[job]\nseed = 1\n");
  EXPECT_EQ(found->manifest.data["samples"], 800);
  EXPECT_TRUE(loaded == state);
  EXPECT_TRUE(problems_of(found->folder).empty());
  EXPECT_EQ(read_text(store.folder() / "latest"), "step-00000100\n");
  EXPECT_EQ(names_in(store.folder()), (std::vector<std::string>{"latest", "run", "step-00000100"}));
}

TEST(Store, lineage_decides_what_is_newest_and_a_step_can_be_committed_again) {
  const Scratch scratch;
  const Lease lease(scratch.path());
  Store store(scratch.path(), lease);
  for (const int step : {10, 20, 30}) commit(store, State(unsigned(step)), step);
  State state;
  EXPECT_EQ(store.load_step(10, state.pieces()).step, 10);
  EXPECT_TRUE(state == State(10));
  commit(store, State(99), 20);  // another future from step 10 on
  const auto newest = store.load_newest(state.pieces());
  EXPECT_EQ(newest->step, 20);
  EXPECT_EQ(newest->manifest.parent, 10);
  EXPECT_TRUE(state == State(99));
  EXPECT_EQ(names_in(store.folder()), (std::vector<std::string>{"latest", "run", "step-00000010",
                                                                "step-00000020", "step-00000030"}));
  EXPECT_NE(message_of([&] { store.load_step(15, state.pieces()); }).find("there are 20, 30, 10"),
            std::string::npos);
}

TEST(Store, a_damaged_checkpoint_is_reported_and_the_one_before_is_taken) {
  const Scratch scratch;
  const Lease lease(scratch.path());
  Store store(scratch.path(), lease);
  for (const int step : {10, 20, 30, 40}) commit(store, State(unsigned(step)), step);
  const fs::path folder = store.folder();
  const Manifest manifest = read_manifest(folder / "step-00000040");
  flip_byte(folder / "step-00000040" / manifest.shards[0].name,
            manifest.find("model/layers.0.mlp.up.weight")->rectangles[0].offset + 5);
  const fs::path shard = folder / "step-00000030" / manifest.shards[0].name;
  fs::resize_file(shard, fs::file_size(shard) - 1);
  std::ofstream(folder / "latest") << "step-99999999";

  State state;
  const auto found = Store(scratch.path()).load_newest(state.pieces());
  EXPECT_EQ(found->step, 20);
  EXPECT_TRUE(state == State(20));
  ASSERT_EQ(found->rejected.size(), 2u);
  EXPECT_NE(found->rejected[0].find("step-00000040/shard-00000-of-00001.h5: damaged: tensor "
                                    "model/layers.0.mlp.up.weight"),
            std::string::npos)
      << found->rejected[0];
  EXPECT_NE(found->rejected[1].find("truncated"), std::string::npos) << found->rejected[1];

  fs::remove(folder / "step-00000020" / manifest.shards[0].name);
  flip_byte(folder / "step-00000010" / "manifest.json", 40);
  const std::string all = message_of([&] { store.load_newest(state.pieces()); });
  EXPECT_NE(all.find("none of the 4 checkpoints"), std::string::npos) << all;
  EXPECT_NE(all.find("No such file"), std::string::npos) << all;
  EXPECT_THROW(store.load_newest(state.pieces()), CheckpointError);
}

TEST(Store, files_of_another_step_or_run_are_not_accepted) {
  const Scratch scratch;
  const Scratch other;
  const Lease lease(scratch.path());
  Store store(scratch.path(), lease);
  for (const int step : {10, 20}) commit(store, State(unsigned(step)), step);
  const fs::path folder = store.folder();
  State state;
  fs::copy(folder / "step-00000010", folder / "step-00000050", fs::copy_options::recursive);
  fs::copy(folder / "step-00000010/shard-00000-of-00001.h5",
           folder / "step-00000020/shard-00000-of-00001.h5", fs::copy_options::overwrite_existing);
  auto found = store.load_newest(state.pieces());
  EXPECT_EQ(found->step, 10);
  EXPECT_EQ(found->rejected.size(), 2u);

  const Lease lease_of_other(other.path());
  Store store_of_other(other.path(), lease_of_other);
  commit(store_of_other, State(1), 60);
  fs::copy(store_of_other.folder() / "step-00000060", folder / "step-00000060",
           fs::copy_options::recursive);
  found = store.load_newest(state.pieces());
  EXPECT_EQ(found->step, 10);
  ASSERT_EQ(found->rejected.size(), 3u);
  EXPECT_NE(found->rejected[2].find("belongs to run " + store_of_other.run()), std::string::npos)
      << found->rejected[1];
}

TEST(Store, the_state_of_another_model_is_refused_with_every_difference) {
  const Scratch scratch;
  const Lease lease(scratch.path());
  Store store(scratch.path(), lease);
  const State state(3);
  commit(store, state, 1);
  std::vector<Piece> wanted = state.pieces();
  wanted[0].shape = Shape{90, 24};
  wanted[0].box = all_of(wanted[0].shape);
  wanted[1].dtype = DType::kI32;
  wanted[2].tensor = "model/layers.9.attention.qkv.weight";
  const std::string why = message_of([&] { store.load_newest(wanted); });
  EXPECT_NE(why.find("missing tensors (1): model/layers.9.attention.qkv.weight"), std::string::npos)
      << why;
  EXPECT_NE(why.find("unexpected tensors (1): model/layers.0.attention.qkv.weight"),
            std::string::npos);
  EXPECT_NE(why.find("model/embed.weight [101, 24] there, [90, 24] here"), std::string::npos);
  EXPECT_NE(why.find("float32 there, int32 here"), std::string::npos);
  EXPECT_THROW(store.load_newest(wanted), CheckpointError);
}

TEST(Store, optional_tensors_may_be_missing_on_either_side_but_only_all_of_them) {
  const Scratch scratch;
  const Lease lease(scratch.path());
  Store store(scratch.path(), lease);
  const State state(3);
  commit(store, state, 1);
  const Match optional{.optional = "model/layers.0."};
  const auto is_optional = [&](const Piece& piece) {
    return piece.tensor.starts_with(optional.optional);
  };
  State loaded;
  std::vector<Piece> fewer = loaded.pieces();
  std::erase_if(fewer, is_optional);
  EXPECT_THROW(store.load_newest(fewer), CheckpointError);
  EXPECT_EQ(store.load_newest(fewer, optional)->step, 1);
  EXPECT_FALSE(loaded == state);
  // The rest has been read.
  const auto is_same = [&](std::size_t i) {
    const Piece &here = loaded.pieces()[i], &there = state.pieces()[i];
    return std::memcmp(here.data, there.data, here.bytes()) == 0;
  };
  for (std::size_t i = 0; i < state.pieces().size(); ++i) {
    EXPECT_EQ(is_same(i), !is_optional(state.pieces()[i])) << state.pieces()[i].tensor;
  }
  fewer.push_back(loaded.pieces()[1]);  // one of them
  ASSERT_TRUE(is_optional(fewer.back()));
  EXPECT_NE(message_of([&] { store.load_newest(fewer, optional); }).find("unexpected tensors (3)"),
            std::string::npos);

  // What the checkpoint lacks keeps its memory.
  State more;
  std::vector<std::byte> memory(64, std::byte{7});
  std::vector<Piece> wanted = more.pieces();
  const Shape shape{16};
  wanted.push_back({"ema/norm.weight", DType::kF32, shape, all_of(shape), memory.data()});
  EXPECT_THROW(store.load_newest(wanted), CheckpointError);
  EXPECT_EQ(store.load_step(1, wanted, {.optional = "ema/"}).step, 1);
  EXPECT_TRUE(more == state);
  EXPECT_EQ(memory, std::vector<std::byte>(64, std::byte{7}));
}

TEST(Store, a_part_of_the_tensors_can_be_asked_for) {
  const Scratch scratch;
  const State state(3);
  {
    const Lease lease(scratch.path());
    Store store(scratch.path(), lease);
    commit(store, state, 1);
  }
  State part;
  const std::vector<Piece> wanted(part.pieces().begin(), part.pieces().begin() + 1);
  EXPECT_THROW(Store(scratch.path()).load_newest(wanted), CheckpointError);
  for (const fs::path& from : {scratch.path(), scratch.path() / "checkpoints/step-00000001"}) {
    part.fill(0);
    EXPECT_EQ(load_from(from, wanted).step, 1);
    EXPECT_TRUE(
        std::equal(wanted[0].data, wanted[0].data + wanted[0].bytes(), state.pieces()[0].data));
  }
  EXPECT_THROW(load_from(scratch.path() / "nowhere", wanted), CheckpointError);
}

TEST(Store, retention_keeps_the_latest_good_and_every_nth) {
  const Scratch scratch;
  const Lease lease(scratch.path());
  for (const int step : {10, 20, 30, 40, 50, 60}) {
    Store store(scratch.path(), lease);
    commit(store, State(unsigned(step)), step);
  }
  Store store(scratch.path(), lease);
  // The two newest are damaged, so they do not count; nobody told the store.
  flip_byte(store.folder() / "step-00000060/shard-00000-of-00001.h5", 5000);
  fs::remove(store.folder() / "step-00000050/state.h5");
  EXPECT_EQ(store.prune({2, 20}), (std::vector<std::int64_t>{10}));
  EXPECT_EQ(store.prune({2, 0}), (std::vector<std::int64_t>{20}));
  EXPECT_EQ(names_in(store.folder()),
            (std::vector<std::string>{"latest", "run", "step-00000030", "step-00000040",
                                      "step-00000050", "step-00000060"}));
  EXPECT_THROW(store.prune({1, 0}), Error);
}

TEST(Store, leftovers_of_crashed_writers_go_when_the_next_writer_starts) {
  const Scratch scratch;
  const Lease lease(scratch.path());
  {
    Store store(scratch.path(), lease);
    commit(store, State(1), 1);
  }
  const fs::path folder = scratch.path() / "checkpoints";
  fs::create_directories(folder / ".partial-step-00000002-x/deep");
  fs::create_directories(folder / ".trash-step-00000000-x");
  std::ofstream(folder / "latest.tmp-123") << "x";
  std::ofstream(scratch.path() / "config.toml.tmp-45") << "x";
  std::ofstream(scratch.path() / "notes.tmp-of-mine") << "x";
  EXPECT_EQ(Store(scratch.path()).list().size(), 1u);  // a reader leaves them alone
  EXPECT_EQ(names_in(folder).size(), 6u);
  const Store store(scratch.path(), lease);
  EXPECT_EQ(names_in(folder), (std::vector<std::string>{"latest", "run", "step-00000001"}));
  EXPECT_EQ(
      names_in(scratch.path()),
      (std::vector<std::string>{"LEASE.json", "checkpoints", "incarnation", "notes.tmp-of-mine"}));
}

TEST(Store, a_lost_lease_stops_the_writer) {
  const Scratch scratch;
  const Lease lease(scratch.path());
  Store store(scratch.path(), lease);
  fs::remove(scratch.path() / "LEASE.json");
  EXPECT_THROW(commit(store, State(1), 1), CheckpointError);
  EXPECT_TRUE(store.list().empty());
}

TEST(Store, a_run_file_that_is_damaged_or_gone_is_mended_from_the_checkpoints) {
  const Scratch scratch;
  const Lease lease(scratch.path());
  std::string run;
  {
    Store store(scratch.path(), lease);
    commit(store, State(1), 1);
    run = store.run();
  }
  std::ofstream(scratch.path() / "checkpoints/run") << "garbage";
  EXPECT_EQ(Store(scratch.path(), lease).run(), run);
  fs::remove(scratch.path() / "checkpoints/run");
  EXPECT_EQ(Store(scratch.path()).run(), run);
  EXPECT_EQ(Store(scratch.path(), lease).run(), run);
}

}  // namespace
}  // namespace trireme::checkpoint
