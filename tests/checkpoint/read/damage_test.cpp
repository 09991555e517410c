#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>

#include "checkpoint/read/load.h"
#include "model/base/file.h"
#include "tests/checkpoint/state.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

// In memory: what is tried here ten thousand times is not the disk.
fs::path fast_folder() {
  const fs::path memory = "/dev/shm";
  return ::access(memory.c_str(), W_OK) == 0 ? memory : fs::temp_directory_path();
}

// Bytes of a file in place, put back when the object goes.
class Patch {
 public:
  Patch(const fs::path& path, std::uint64_t offset, const std::string& bytes)
      : file_(File::open_write(path)), offset_(offset), before_(bytes.size(), '\0') {
    file_.read_at(offset, std::as_writable_bytes(std::span(before_)));
    put(bytes);
  }
  ~Patch() { put(before_); }
  Patch(const Patch&) = delete;
  Patch& operator=(const Patch&) = delete;
  bool changes(const std::string& bytes) const { return bytes != before_; }

 private:
  void put(const std::string& bytes) {
    const ssize_t n =
        ::pwrite(file_.descriptor(), bytes.data(), bytes.size(), static_cast<off_t>(offset_));
    EXPECT_EQ(n, static_cast<ssize_t>(bytes.size()));
  }
  File file_;
  std::uint64_t offset_;
  std::string before_;
};

class Damage : public testing::Test {
 protected:
  Damage() {
    write_run(scratch_.path(), before_, state_);
    write_run(other_.path(), State(23), State(24));
  }
  static void write_run(const fs::path& run, const State& first, const State& second) {
    const Lease lease(run);
    Store store(run, lease);
    commit(store, first, 1);
    commit(store, second, 2);
  }

  // The loader takes the older one, or the damage is where it does not look.
  void expect_never_wrong() {
    loaded_.fill(0);
    const auto found = Store(scratch_.path()).load_newest(loaded_.pieces());
    ASSERT_TRUE(found.has_value());
    ASSERT_TRUE(loaded_ == (found->step == 2 ? state_ : before_));
    ASSERT_EQ(found->rejected.size(), found->step == 2 ? 0u : 1u);
    fell_back_ += found->step == 1 ? 1 : 0;
    ++tried_;
  }
  void expect_found(const std::string& name, const std::string& word = {}) {
    const auto problems = problems_of(folder_);
    ASSERT_FALSE(problems.empty()) << name;
    ASSERT_NE(problems[0].find(name), std::string::npos) << problems[0];
    ASSERT_NE(problems[0].find(word), std::string::npos) << problems[0];
    expect_never_wrong();
  }
  // The newest is taken all the same, and the next writer is of the same run.
  void expect_unharmed() {
    const std::string run = read_manifest(folder_).run;
    loaded_.fill(0);
    ASSERT_EQ(Store(scratch_.path()).load_newest(loaded_.pieces())->step, 2);
    ASSERT_TRUE(loaded_ == state_);
    const Lease lease(scratch_.path());
    ASSERT_EQ(Store(scratch_.path(), lease).run(), run);
    ++tried_;
  }

  // The tensor whose bytes lie at `offset` of the shard; empty between them.
  std::string tensor_at(std::uint64_t offset) const {
    for (const StoredTensor& tensor : manifest_.tensors) {
      const Rectangle& part = tensor.rectangles[0];
      if (offset >= part.offset && offset < part.offset + part.bytes) return tensor.name;
    }
    return "";
  }
  std::string name_of_shard() const { return manifest_.shards[0].name; }
  std::vector<std::string> files() const { return {"manifest.json", "state.h5", name_of_shard()}; }

  Scratch scratch_{fast_folder()};
  Scratch other_{fast_folder()};
  State before_{21};
  State state_{22};
  State loaded_;
  fs::path folder_ = scratch_.path() / "checkpoints/step-00000002";
  Manifest manifest_;
  int fell_back_ = 0;
  int tried_ = 0;

  void SetUp() override { manifest_ = read_manifest(folder_); }
};

// 2,250 bits, drawn by TRIREME_SEED; four times as many with TRIREME_THOROUGH=1.
TEST_F(Damage, of_any_bit_is_found_with_file_and_tensor_and_never_loaded) {
  const char* const seed = std::getenv("TRIREME_SEED");
  std::mt19937 random(seed ? static_cast<unsigned>(std::stoul(seed)) : 3);
  const int times = std::getenv("TRIREME_THOROUGH") ? 4 : 1;
  for (const std::string& name : files()) {
    const std::string good = read_text(folder_ / name);
    const int rounds = times * (name == name_of_shard() ? 1250 : 500);
    for (int round = 0; round < rounds; ++round) {
      const std::size_t at = random() % good.size();
      const std::string bad(1, static_cast<char>(good[at] ^ (1 << random() % 8)));
      const Patch patch(folder_ / name, at, bad);
      const std::string tensor = name == name_of_shard() ? tensor_at(at) : "";
      const int fell_back = fell_back_;
      ASSERT_NO_FATAL_FAILURE(
          expect_found(name, tensor.empty() ? "" : "damaged: tensor " + tensor + " at byte "));
      if (name == "manifest.json" || !tensor.empty()) {
        ASSERT_EQ(fell_back_, fell_back + 1);
      }
    }
  }
  ASSERT_TRUE(problems_of(folder_).empty());
  EXPECT_EQ(tried_, times * 2250);
}

TEST_F(Damage, of_whole_blocks_is_found_and_never_loaded) {
  std::mt19937 random(5);
  for (const std::string& name : files()) {
    const std::string good = read_text(folder_ / name);
    for (int round = 0; round < 300; ++round) {
      const std::size_t block = round % 2 ? 4096 : 512;
      const std::size_t at = random() % good.size() / block * block;
      const std::size_t size = std::min(block, good.size() - at);
      // Zeros, as of a lost write, or what belongs elsewhere.
      const std::string bad = round % 3 ? good.substr(random() % (good.size() - size + 1), size)
                                        : std::string(size, '\0');
      const Patch patch(folder_ / name, at, bad);
      if (!patch.changes(bad)) continue;
      ASSERT_NO_FATAL_FAILURE(expect_found(name));
    }
  }
  EXPECT_GT(tried_, 500);
}

TEST_F(Damage, by_truncation_deletion_and_strangers_is_found) {
  std::mt19937 random(7);
  for (const std::string& name : files()) {
    const fs::path path = folder_ / name;
    const std::string good = read_text(path);
    std::vector<std::size_t> sizes{0, 1, good.size() - 1, good.size() + 1, good.size() + 4096};
    for (int round = 0; round < 100; ++round) sizes.push_back(random() % good.size());
    for (const std::size_t size : sizes) {
      fs::resize_file(path, size);
      ASSERT_NO_FATAL_FAILURE(expect_found(name));
      std::ofstream(path, std::ios::binary) << good;
    }
    fs::remove(path);
    ASSERT_NO_FATAL_FAILURE(expect_found(name));
    fs::create_directory(path);
    ASSERT_NO_FATAL_FAILURE(expect_found(name));
    fs::remove(path);
    fs::create_symlink("nowhere", path);
    ASSERT_NO_FATAL_FAILURE(expect_found(name));
    fs::remove(path);
    // The same file of another step, and of another run that has the same steps.
    for (const fs::path& from : {scratch_.path() / "checkpoints/step-00000001" / name,
                                 other_.path() / "checkpoints/step-00000002" / name}) {
      fs::copy_file(from, path, fs::copy_options::overwrite_existing);
      const auto problems = problems_of(folder_);
      ASSERT_FALSE(problems.empty()) << from;
      ASSERT_NO_FATAL_FAILURE(expect_never_wrong());
    }
    std::ofstream(path, std::ios::binary) << good;
    ASSERT_TRUE(problems_of(folder_).empty());
  }
  std::ofstream(folder_ / "notes.txt") << "x";
  ASSERT_EQ(problems_of(folder_).size(), 1u);
  EXPECT_NE(problems_of(folder_)[0].find("notes.txt: not part of"), std::string::npos);
}

TEST_F(Damage, by_a_whole_folder_of_another_step_or_run_is_found) {
  fs::remove_all(folder_);
  fs::copy(other_.path() / "checkpoints/step-00000002", folder_);
  ASSERT_NO_FATAL_FAILURE(expect_never_wrong());
  EXPECT_EQ(fell_back_, 1);
  fs::remove_all(folder_);
  fs::copy(scratch_.path() / "checkpoints/step-00000001", folder_);
  ASSERT_NO_FATAL_FAILURE(expect_found("manifest.json", "of step 1"));
  EXPECT_EQ(fell_back_, 2);
}

// None of them holds state; the run must be able to do without.
TEST_F(Damage, of_latest_run_and_lease_costs_nothing) {
  const pid_t holder = ::fork();
  if (holder == 0) {
    const Lease lease(scratch_.path(),
                      /*term_s=*/0.01);  // what damage makes another node's is waited for
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(holder, nullptr, 0);
  const fs::path folder = scratch_.path() / "checkpoints";
  std::vector<std::pair<fs::path, std::string>> texts;  // as the dead run left them
  for (const fs::path& path : {folder / "latest", folder / "run", scratch_.path() / "LEASE.json"}) {
    texts.emplace_back(path, read_text(path));
  }
  for (const auto& [path, good] : texts) {
    const auto with = [&](const std::string& text) {
      std::ofstream(path, std::ios::binary) << text;
      expect_unharmed();
    };
    for (std::size_t bit = 0; bit < 8 * good.size(); bit += path.filename() == "run" ? 1 : 5) {
      std::string bad = good;
      bad[bit / 8] ^= static_cast<char>(1 << bit % 8);
      ASSERT_NO_FATAL_FAILURE(with(bad)) << path << " bit " << bit;
    }
    for (std::size_t size = 0; size < good.size(); size += 3) {
      ASSERT_NO_FATAL_FAILURE(with(good.substr(0, size))) << path << " " << size;
    }
    ASSERT_NO_FATAL_FAILURE(with(std::string(10'000, 'x'))) << path;
    fs::remove(path);
    ASSERT_NO_FATAL_FAILURE(expect_unharmed());
    if (fs::path from = other_.path() / path.lexically_relative(scratch_.path());
        fs::exists(from)) {
      ASSERT_NO_FATAL_FAILURE(with(read_text(from)));
    }
  }
  EXPECT_GT(tried_, 600);
}

TEST_F(Damage, of_a_run_file_is_not_mended_by_a_stranger) {
  // What is left of the run cannot be read, so the stranger proves nothing.
  fs::copy(other_.path() / "checkpoints/step-00000002",
           scratch_.path() / "checkpoints/step-00000003");
  for (const char* step : {"step-00000001", "step-00000002"}) {
    fs::resize_file(scratch_.path() / "checkpoints" / step / "manifest.json", 10);
  }
  EXPECT_THROW(Store(scratch_.path()).load_newest(loaded_.pieces()), CheckpointError);
}

}  // namespace
}  // namespace trireme::checkpoint
