// A run that is saved in one layout goes on in any other as if nothing had happened, through
// the checkpoint's files. Run under mpirun; a layout takes the first ranks it needs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "checkpoint/format/names.h"
#include "checkpoint/store/diff.h"
#include "checkpoint/store/saver.h"
#include "model/base/philox.h"
#include "parallel/mesh/mesh.h"
#include "parallel/tensor/partial_gradients.h"
#include "tests/parallel/mpi_world.h"
#include "tests/tiny_model.h"
#include "trainer/engine/engine.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/engine/step_plan.h"
#include "trainer/loop/train_state.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kResumeSeq = 8, kVocab = 61, kMicroBatches = 4;  // of a step, over all ranks
constexpr std::int64_t kSavedAt = 2, kSteps = 3;                        // and steps that follow
constexpr double kRate = 1e-2;

ModelConfig resume_model(bool gpt2) {
  return test::tiny_model(gpt2 ? "gpt2" : "llama", {.vocab = kVocab,
                                                    .hidden = 16,
                                                    .mlp = 24,
                                                    .layers = 4,
                                                    .kv_heads = 2,  // fewer than tensor = 4
                                                    .head_dim = 4,
                                                    .positions = kResumeSeq});
}

// The first ranks of the world in a layout; each of the others is alone.
RankGroups groups_of(const ParallelismConfig& layout, const ModelConfig& model) {
  constexpr std::size_t kBuffer = 1 << 14;
  World& world = tests::world();
  const int ranks = static_cast<int>(world_size(layout));
  const Mesh mesh({.pipeline = layout.pipeline,
                   .data_replicate = layout.data_replicate,
                   .data_shard = layout.data_shard,
                   .tensor = layout.tensor},
                  ranks);
  const int rank = world.rank();
  const auto group = [&](const char* name, const std::vector<Axis>& axes,
                         Messages messages = Messages::kNone) {
    return world.split(name, rank < ranks ? mesh.group(rank, axes) : std::vector{rank}, kBuffer,
                       messages);
  };
  const auto at_end = [&](int stage) { return stage == 0 || stage == layout.pipeline - 1; };
  RankGroups groups;
  groups.tensor = group("tensor", {Axis::kTensor});
  const int copies = rank < ranks ? key_value_replicas(model, mesh.extent(Axis::kTensor)) : 1;
  std::vector<int> same_heads;
  for (int i = 0; i < copies; ++i) same_heads.push_back(rank / copies * copies + i);
  groups.kv_replicas = world.split("key_value", same_heads, kBuffer);
  groups.pp_forward = group("down", {Axis::kPipeline}, Messages::kSent);
  groups.pp_backward = group("up", {Axis::kPipeline}, Messages::kSent);
  std::vector<int> ends{rank};
  if (rank < ranks && layout.pipeline > 1 && at_end(mesh.coordinate(rank, Axis::kPipeline))) {
    const std::vector<int> stages = mesh.group(rank, {Axis::kPipeline});
    ends = {stages.front(), stages.back()};
  }
  groups.embedding_group = world.split("ends", ends, kBuffer);
  const std::vector<Axis> data{Axis::kDataReplicate, Axis::kDataShard};
  groups.data = group("data", data);
  const bool divides = layout.zero > 0;
  groups.shard = group("shard", divides ? std::vector{Axis::kDataShard} : std::vector<Axis>{});
  groups.replicate = group("replicate", divides ? std::vector{Axis::kDataReplicate} : data);
  std::vector<Axis> state{Axis::kPipeline, Axis::kTensor};
  if (divides) state.push_back(Axis::kDataShard);
  groups.model_state = group("state", state);
  groups.all =
      group("all", {Axis::kPipeline, Axis::kDataReplicate, Axis::kDataShard, Axis::kTensor});
  return groups;
}

struct Layout {
  std::string name;
  ParallelismConfig config;
};

EngineSpec resume_spec(const ModelConfig& model, const ParallelismConfig& layout) {
  EngineSpec spec;
  spec.model = model;
  spec.data.document_mask = true;
  spec.training.seq_len = kResumeSeq;
  spec.parallelism = layout;
  spec.job.reproducible = true;
  // With the usual 1e-8 AdamW's first steps are the gradient's signs, and one that is nothing but
  // roundings moves its weight as far as any other.
  spec.optimizer.eps = 1e-3;
  spec.training.ema = 0.9;
  spec.micro_batches = kMicroBatches / data_ranks(layout);
  return spec;
}

// A rank's part of a run in one layout.
class Run {
 public:
  Run(const ModelConfig& model, const Layout& layout)
      : layout_(layout),
        groups_(groups_of(layout.config, model)),
        takes_part_(tests::world().rank() < world_size(layout.config)) {
    if (!takes_part_) return;
    const EngineSpec spec = resume_spec(model, layout.config);
    arenas_.emplace(plan_engine(spec, groups_, {}).memory, Device{});
    engine_.emplace(spec, groups_, stream_, *arenas_);
    engine_->model().params().initialize(1);
    engine_->model().publish_masters(engine_->stream());
    engine_->model().optimizer().start_average(engine_->stream());
  }

  const Layout& layout() const { return layout_; }
  bool takes_part() const { return takes_part_; }

  // Steps first + 1 to first + count; their losses.
  std::vector<double> train(std::int64_t first, std::int64_t count) {
    std::vector<double> losses;
    for (std::int64_t step = first + 1; step <= first + count; ++step) {
      fill(static_cast<std::uint64_t>(step));
      losses.push_back(train_step(*engine_, kRate, step, kMicroBatches * kResumeSeq).loss);
    }
    return losses;
  }

  checkpoint::Store open(const fs::path& folder, std::optional<checkpoint::Lease>& lease) {
    const Team team(*groups_.all);
    if (team.leads()) {
      fs::create_directories(folder);
      lease.emplace(folder);
    }
    return {folder, lease ? &*lease : nullptr, team};
  }

  fs::path save(const fs::path& folder) {
    std::optional<checkpoint::Lease> lease;
    checkpoint::Snapshot snapshot;
    snapshot.manifest.step = kSavedAt;
    snapshot.manifest.digests = {{"weights", weights_hash_text(*engine_, *groups_.all)}};
    checkpoint::Store store = open(folder, lease);
    return checkpoint::Saver(store, state_pieces(*engine_)).save(std::move(snapshot)).folder;
  }

  void resume(const fs::path& folder) {
    std::optional<checkpoint::Lease> lease;
    const auto from = open(folder, lease).load_newest(state_pieces(*engine_));
    ASSERT_TRUE(from.has_value());
    engine_->host_state().upload(stream_);
    EXPECT_EQ(weights_hash_text(*engine_, *groups_.all), from->manifest.digests["weights"]);
    engine_->model().publish_masters(engine_->stream(), kSavedAt);
  }

 private:
  void fill(std::uint64_t step) {
    const data::TokenBatch batch = engine_->batch();
    for (std::size_t i = 0; i < batch.ids.size(); ++i) {
      const auto own = static_cast<std::int64_t>(i) / kResumeSeq;
      const auto place = static_cast<std::int64_t>(i) % kResumeSeq;
      const std::int64_t number = engine_->micro_batches().number(engine_->data_rank(), own);
      const auto words = philox(step, static_cast<std::uint64_t>(number * kResumeSeq + place));
      batch.ids[i] = static_cast<std::int32_t>(words[0] % kVocab);
      batch.targets[i] = static_cast<std::int32_t>(words[1] % kVocab);
      batch.positions[i] = static_cast<std::int32_t>(place);
      batch.document_start[i] = 0;
    }
  }

  Layout layout_;
  RankGroups groups_;
  bool takes_part_;
  Stream stream_;
  std::optional<Arenas> arenas_;
  std::optional<Engine> engine_;
};

// Where the ranks meet: a folder of theirs, and a line to wait at.
class Place {
 public:
  Place() : all_ranks_(tests::all_ranks(1 << 10)) {
    const Team team(*all_ranks_);
    path_ = team.led([] {
      return (fs::temp_directory_path() / ("trireme-test-" + checkpoint::new_uuid())).string();
    });
    seed_ = std::stoull(team.led([] {
      const char* told = std::getenv("TRIREME_SEED");
      return std::string(told != nullptr ? told : "1");
    }));
  }
  ~Place() {
    std::error_code ignored;
    if (tests::world().rank() == 0) fs::remove_all(path_, ignored);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  const fs::path& path() const { return path_; }
  std::uint64_t seed() const { return seed_; }
  void wait() const {
    Team(*all_ranks_).led([] {});
  }

 private:
  std::unique_ptr<Communicator> all_ranks_;
  fs::path path_;
  std::uint64_t seed_;
};

// Only data, pipeline and ZeRO differ: no sum is in another order.
bool same_order(const Layout& a, const Layout& b) {
  return a.config.tensor == b.config.tensor && a.config.sequence == b.config.sequence;
}

// What each layout's run was expected to go on with.
struct Saved {
  fs::path folder;
  std::vector<double> losses;  // of the next steps
};

std::vector<Saved> save_all(const ModelConfig& model, const std::vector<Layout>& layouts,
                            const Place& place) {
  std::vector<Saved> saved(layouts.size());
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    SCOPED_TRACE(layouts[i].name);
    Run run(model, layouts[i]);
    if (run.takes_part()) {
      run.train(0, kSavedAt);
      saved[i].folder = run.save(place.path() / layouts[i].name);
      saved[i].losses = run.train(kSavedAt, kSteps);
    }
    place.wait();
  }
  return saved;
}

void expect_no_change(Run& run, const Saved& from, const fs::path& folder) {
  const fs::path again = run.save(folder);
  if (tests::world().rank() != 0) return;
  const auto differences = checkpoint::compare(from.folder, again);
  EXPECT_TRUE(differences.empty()) << differences.front().item;
}

// The largest relative difference of the losses.
double expect_same_curve(const std::vector<double>& losses, const Saved& from, double tolerance) {
  double worst = 0;
  // Rank 0 takes part in all layouts, and knows every loss.
  for (std::size_t i = 0; tests::world().rank() == 0 && i < losses.size(); ++i) {
    const double distance = std::abs(losses[i] - from.losses[i]) / from.losses[i];
    EXPECT_LE(distance, tolerance) << "step " << kSavedAt + 1 + static_cast<std::int64_t>(i);
    worst = std::max(worst, distance);
  }
  return worst;
}

// Each layout goes on from the one before it and a quarter of the others, drawn by TRIREME_SEED;
// from all with TRIREME_THOROUGH=1.
void try_pairs(const ModelConfig& model, const std::vector<Layout>& layouts) {
  const Place place;
  const char* thorough = std::getenv("TRIREME_THOROUGH");
  const bool all = thorough != nullptr && std::string(thorough) == "1";
  const std::vector<Saved> saved = save_all(model, layouts, place);
  int exact = 0, near = 0;
  double worst = 0;
  for (std::size_t to = 0; to < layouts.size(); ++to) {
    Run run(model, layouts[to]);
    for (std::size_t from = 0; from < layouts.size(); ++from) {
      const bool follows = to == (from + 1) % layouts.size();
      const bool drawn = philox(place.seed(), from * layouts.size() + to)[0] % 4 == 0;
      if (from == to || !(all || follows || drawn)) continue;
      SCOPED_TRACE(layouts[from].name + " to " + layouts[to].name);
      const bool same = same_order(layouts[from], layouts[to]);
      ++(same ? exact : near);
      if (run.takes_part()) {
        run.resume(place.path() / layouts[from].name);
        if (follows) {
          expect_no_change(run, saved[from], place.path() / (layouts[from].name + "-again"));
        }
        worst = std::max(
            worst, expect_same_curve(run.train(kSavedAt, kSteps), saved[from], same ? 0 : 1e-6));
      }
      place.wait();
    }
  }
  if (tests::world().rank() != 0) return;
  std::printf(
      "%zu layouts: %d pairs to the bit, %d others; losses within %.1e; TRIREME_SEED=%llu\n",
      layouts.size(), exact, near, worst, static_cast<unsigned long long>(place.seed()));
}

struct Degrees {
  std::int64_t tensor = 1, pipeline = 1, virtual_stages = 1, replicate = 1, shard = 1, zero = 1;
  bool sequence = false;
  const char* schedule = "1F1B";
};

Layout layout(const Degrees& d) {
  ParallelismConfig c;
  c.tensor = d.tensor;
  c.sequence = d.sequence;
  c.pipeline = d.pipeline;
  c.virtual_stages = d.virtual_stages;
  c.schedule = d.virtual_stages > 1 ? "Interleaved1F1B" : d.schedule;
  c.data_replicate = d.replicate;
  c.data_shard = d.shard;
  c.zero = d.zero;
  return {say("tensor_", d.tensor, d.sequence ? "_sequence" : "", "_pipeline_", d.pipeline, "_",
              c.schedule, "_data_", d.replicate, "_", d.shard, "_zero_", d.zero),
          c};
}

std::vector<Layout> all_layouts() {
  return {layout({}),
          layout({.shard = 2, .zero = 0}),
          layout({.pipeline = 2}),
          layout({.tensor = 2}),
          layout({.shard = 2, .zero = 1}),
          layout({.pipeline = 2, .virtual_stages = 2}),
          layout({.shard = 2, .zero = 2}),
          layout({.tensor = 2, .sequence = true}),
          layout({.shard = 2, .zero = 3}),
          layout({.pipeline = 2, .schedule = "GPipe"}),
          layout({.replicate = 2}),
          layout({.tensor = 4}),
          layout({.shard = 4, .zero = 3}),
          layout({.pipeline = 4}),
          layout({.replicate = 2, .shard = 2, .zero = 2}),
          layout({.tensor = 2, .pipeline = 2}),
          layout({.pipeline = 2, .shard = 2, .zero = 3}),
          layout({.tensor = 2, .shard = 2, .zero = 3, .sequence = true}),
          layout({.pipeline = 2, .virtual_stages = 2, .shard = 2, .zero = 2}),
          layout({.tensor = 2, .pipeline = 2, .shard = 2, .zero = 3}),
          layout({.pipeline = 2, .replicate = 2, .shard = 2, .zero = 1}),
          layout({.tensor = 4, .shard = 2, .zero = 3})};
}

TEST(Resume, goes_on_in_any_other_layout) {
  try_pairs(resume_model(/*gpt2=*/false), all_layouts());
}

TEST(Resume, goes_on_in_any_other_layout_with_a_tied_table) {
  std::vector<Layout> some;
  const std::vector<Layout> all = all_layouts();
  for (std::size_t i = 0; i < all.size(); i += 3) some.push_back(all[i]);
  try_pairs(resume_model(/*gpt2=*/true), some);
}

}  // namespace
}  // namespace trireme
