#include "parallel/mesh/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "model/base/error.h"

namespace trireme {
namespace {

constexpr std::initializer_list<Axis> kDimensions{Axis::kPipeline, Axis::kDataReplicate,
                                                  Axis::kDataShard, Axis::kContext, Axis::kTensor};

// Every mesh of up to 54 ranks whose axes have up to three each, with every legal sharing
// of experts.
void for_every_small_mesh(const std::function<void(const Mesh&)>& visit) {
  for (int p = 1; p <= 3; ++p) {
    for (int r = 1; r <= 3; ++r) {
      for (int s = 1; s <= 3; ++s) {
        for (int c = 1; c <= 3; ++c) {
          for (int t = 1; t <= 3; ++t) {
            const int stage = r * s * c * t;
            if (p * stage > 54) continue;
            for (int e = 1; e <= r * s * c; ++e) {
              const bool is_aligned = s * c % e == 0 || e % (s * c) == 0;
              if (r * s * c % e == 0 && is_aligned) visit(Mesh({p, r, s, c, t, e}, p * stage));
            }
          }
        }
      }
    }
  }
}

// The message of the refusal; empty when there is none.
std::string refusal(const MeshShape& shape, int world) {
  try {
    const Mesh mesh(shape, world);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST(Mesh, lays_tensor_ranks_side_by_side_and_stages_far_apart) {
  const Mesh mesh(
      {.pipeline = 2, .data_replicate = 2, .data_shard = 2, .context = 2, .tensor = 2, .expert = 1},
      32);
  EXPECT_EQ(mesh.group(0, {Axis::kTensor}), (std::vector{0, 1}));
  EXPECT_EQ(mesh.group(0, {Axis::kContext}), (std::vector{0, 2}));
  EXPECT_EQ(mesh.group(0, {Axis::kDataShard}), (std::vector{0, 4}));
  EXPECT_EQ(mesh.group(0, {Axis::kDataReplicate}), (std::vector{0, 8}));
  EXPECT_EQ(mesh.group(0, {Axis::kPipeline}), (std::vector{0, 16}));
  EXPECT_EQ(mesh.group(21, {Axis::kDataReplicate, Axis::kDataShard}),
            (std::vector{17, 21, 25, 29}));
  EXPECT_EQ(mesh.coordinate(21, Axis::kPipeline), 1);
  EXPECT_EQ(mesh.coordinate(21, Axis::kDataReplicate), 0);
  EXPECT_EQ(mesh.coordinate(21, Axis::kDataShard), 1);
  EXPECT_EQ(mesh.coordinate(21, Axis::kContext), 0);
  EXPECT_EQ(mesh.coordinate(21, Axis::kTensor), 1);
}

TEST(Mesh, gives_every_rank_coordinates_of_its_own) {
  for_every_small_mesh([](const Mesh& mesh) {
    std::set<std::vector<int>> seen;
    for (int rank = 0; rank < mesh.size(); ++rank) {
      std::vector<int> place;
      for (const Axis axis : kDimensions) {
        place.push_back(mesh.coordinate(rank, axis));
        ASSERT_GE(place.back(), 0);
        ASSERT_LT(place.back(), mesh.extent(axis));
      }
      if (rank > 0) {
        ASSERT_GT(place, *seen.rbegin()) << "the outermost axis first";
      }
      seen.insert(place);
    }
    ASSERT_EQ(seen.size(), static_cast<std::size_t>(mesh.size()));
  });
}

TEST(Mesh, groups_along_any_axes_partition_the_world) {
  const std::vector<std::vector<Axis>> choices{
      {},
      {Axis::kPipeline},
      {Axis::kDataReplicate},
      {Axis::kDataShard},
      {Axis::kContext},
      {Axis::kTensor},
      {Axis::kDataReplicate, Axis::kDataShard},
      {Axis::kDataReplicate, Axis::kDataShard, Axis::kContext},
      {Axis::kPipeline, Axis::kTensor},
      {Axis::kExpert},
      {Axis::kExpertReplicate},
      {Axis::kPipeline, Axis::kExpert},
      {Axis::kPipeline, Axis::kExpert, Axis::kTensor},
      {Axis::kExpertReplicate, Axis::kExpert}};
  for_every_small_mesh([&](const Mesh& mesh) {
    for (const std::vector<Axis>& axes : choices) {
      std::size_t extent = 1;
      for (const Axis axis : axes) extent *= static_cast<std::size_t>(mesh.extent(axis));
      std::vector<int> times_seen(static_cast<std::size_t>(mesh.size()));
      for (int rank = 0; rank < mesh.size(); ++rank) {
        const std::vector<int> group = mesh.group(rank, axes);
        ASSERT_EQ(group.size(), extent);
        ASSERT_TRUE(std::is_sorted(group.begin(), group.end()));
        ASSERT_TRUE(std::binary_search(group.begin(), group.end(), rank));
        ASSERT_EQ(mesh.group(group.front(), axes), group) << "members see the same group";
        if (group.front() != rank) continue;
        for (const int member : group) ++times_seen[static_cast<std::size_t>(member)];
      }
      ASSERT_EQ(times_seen, std::vector<int>(times_seen.size(), 1));
    }
  });
}

TEST(Mesh, orders_a_group_by_its_coordinate) {
  for_every_small_mesh([](const Mesh& mesh) {
    for (const Axis axis : kDimensions) {
      const std::vector<int> group = mesh.group(mesh.size() - 1, {axis});
      for (std::size_t i = 0; i < group.size(); ++i) {
        ASSERT_EQ(mesh.coordinate(group[i], axis), static_cast<int>(i));
      }
    }
  });
}

TEST(Mesh, shares_experts_over_neighbours_within_a_stage) {
  const Mesh mesh(
      {.pipeline = 2, .data_replicate = 1, .data_shard = 4, .context = 1, .tensor = 2, .expert = 2},
      16);
  EXPECT_EQ(mesh.group(9, {Axis::kExpert}), (std::vector{9, 11}));
  EXPECT_EQ(mesh.group(9, {Axis::kExpertReplicate}), (std::vector{9, 13}));
  EXPECT_EQ(mesh.group(9, {Axis::kExpert, Axis::kTensor}), (std::vector{8, 9, 10, 11}));
  EXPECT_EQ(mesh.coordinate(14, Axis::kExpert), 1);
  EXPECT_EQ(mesh.coordinate(14, Axis::kExpertReplicate), 1);
  EXPECT_THROW(mesh.group(0, {Axis::kExpert, Axis::kDataShard}), Error);
  EXPECT_THROW(mesh.coordinate(16, Axis::kTensor), Error);
}

TEST(Mesh, fills_one_data_axis_with_what_is_left) {
  const Mesh shard(
      {.pipeline = 2, .data_replicate = 2, .data_shard = 0, .context = 1, .tensor = 2, .expert = 1},
      24);
  EXPECT_EQ(shard.extent(Axis::kDataShard), 3);
  const Mesh replicate(
      {.pipeline = 1, .data_replicate = 0, .data_shard = 1, .context = 1, .tensor = 2, .expert = 1},
      8);
  EXPECT_EQ(replicate.extent(Axis::kDataReplicate), 4);
  EXPECT_NE(refusal({.pipeline = 1,
                     .data_replicate = 0,
                     .data_shard = 0,
                     .context = 1,
                     .tensor = 1,
                     .expert = 1},
                    8)
                .find("set at least one of them"),
            std::string::npos);
}

TEST(Mesh, that_is_not_the_world_is_refused_with_values_that_are) {
  const std::string one_axis = refusal({2, 1, 3, 1, 2, 1}, 8);
  EXPECT_EQ(one_axis,
            "parallelism: pipeline 2 x data_replicate 1 x data_shard 3 x context 1 x tensor 2 = 12 "
            "ranks, but 8 were launched; set parallelism.data_shard = 2, or launch 12 ranks");
  const std::string several = refusal({3, 1, 1, 1, 3, 1}, 8);
  EXPECT_NE(several.find("nearest parallelism.pipeline = 2 or 4, parallelism.tensor = 2 or 4"),
            std::string::npos)
      << several;
  const std::string alone = refusal({2, 1, 1, 1, 1, 1}, 1);
  EXPECT_NE(alone.find("but 1 was launched; set parallelism.pipeline = 1, or launch 2 ranks"),
            std::string::npos)
      << alone;
  EXPECT_NE(refusal({4, 1, 1, 1, 4, 1}, 8).find("set parallelism.pipeline = 2 or "),
            std::string::npos);
}

TEST(Mesh, suggests_nothing_that_would_be_refused_again) {
  for (int world = 1; world <= 12; ++world) {
    for (int p = 1; p <= 6; ++p) {
      for (int t = 1; t <= 6; ++t) {
        const std::string text = refusal({p, 1, 1, 1, t, 1}, world);
        ASSERT_EQ(text.empty(), p * t == world) << text;
        const std::size_t at = text.find("; set parallelism.tensor = ");
        if (at == std::string::npos) continue;
        const int suggested = std::stoi(text.substr(at + 27));
        ASSERT_EQ(p * suggested, world) << text;
      }
    }
  }
}

TEST(Mesh, refuses_values_that_are_no_degrees) {
  EXPECT_NE(refusal({1, 1, 1, 1, 0, 1}, 1).find("parallelism.tensor = 0: must be at least 1"),
            std::string::npos);
  EXPECT_NE(refusal({1, -2, 1, 1, 1, 1}, 1).find("parallelism.data_replicate = -2"),
            std::string::npos);
  EXPECT_NE(refusal({1, 1, 1, 1, 1, 0}, 1).find("parallelism.expert = 0"), std::string::npos);
  const std::int64_t huge = std::int64_t{1} << 40;
  EXPECT_NE(refusal({huge, huge, huge, huge, huge, 1}, 8).find("but 8 were launched"),
            std::string::npos);
}

TEST(Mesh, refuses_experts_that_do_not_divide_the_data_ranks) {
  EXPECT_EQ(refusal({2, 1, 4, 1, 2, 3}, 16),
            "parallelism.expert = 3 does not divide the 4 data and context ranks of a pipeline "
            "stage (pipeline 2 x data_replicate 1 x data_shard 4 x context 1 x tensor 2); nearest: "
            "2 or 4");
  EXPECT_EQ(refusal({1, 2, 6, 1, 1, 4}, 12),
            "parallelism.expert = 4 neither divides nor is a multiple of parallelism.data_shard x "
            "context = 6; nearest: 3 or 6");
}

TEST(Mesh, describes_who_is_where) {
  const Mesh mesh({2, 1, 2, 1, 2, 2}, 8);
  const std::vector<std::string> by_block{"a", "a", "a", "a", "b", "b", "b", "b"};
  EXPECT_EQ(mesh.describe(by_block),
            "mesh of 8 ranks on 2 hosts: pipeline 2 x data_shard 2 x tensor 2; experts divided "
            "among 2 of the 2 data ranks of a stage\n"
            "  a: ranks 0-3, pipeline 0, data_shard 0-1, tensor 0-1\n"
            "  b: ranks 4-7, pipeline 1, data_shard 0-1, tensor 0-1");
  const std::vector<std::string> uneven{"a", "b", "a", "a", "a", "a", "a", "c"};
  EXPECT_NE(mesh.describe(uneven).find("a: ranks 0,2-6, pipeline 0-1"), std::string::npos);
  EXPECT_EQ(Mesh({}, 1).describe({"laptop"}), "mesh of 1 rank on 1 host\n  laptop: rank 0");
}

TEST(Mesh, warns_of_tensor_groups_that_span_hosts) {
  const Mesh mesh({1, 1, 2, 1, 4, 1}, 8);
  EXPECT_EQ(mesh.warning({"a", "a", "a", "a", "b", "b", "b", "b"}), "");
  const std::string text = mesh.warning({"a", "a", "a", "a", "b", "b", "c", "c"});
  EXPECT_NE(text.find("1 of 2 tensor-parallel groups span hosts (such as ranks 4-7 on b and c)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("parallelism.tensor = 4"), std::string::npos);
  EXPECT_EQ(Mesh({8, 1, 1, 1, 1, 1}, 8).warning({"a", "b", "c", "d", "e", "f", "g", "h"}), "")
      << "other axes may";
}

}  // namespace
}  // namespace trireme
