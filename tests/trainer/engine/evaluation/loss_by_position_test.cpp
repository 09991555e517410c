#include "trainer/engine/evaluation/loss_by_position.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace trireme {
namespace {

using testing::ElementsAre;
using Bin = LossByPosition::Bin;

std::vector<std::int64_t> ends(std::int64_t seq_len, std::int64_t bins) {
  std::vector<std::int64_t> found;
  const LossByPosition losses(seq_len, bins);
  for (const Bin& bin : losses.bins()) found.push_back(bin.end);
  return found;
}

TEST(loss_by_position, bins_are_powers_of_two_or_equal) {
  EXPECT_THAT(ends(256, 0), ElementsAre(32, 64, 128, 256));
  EXPECT_THAT(ends(300, 0), ElementsAre(32, 64, 128, 256, 300));
  EXPECT_THAT(ends(20, 0), ElementsAre(20));
  EXPECT_THAT(ends(256, 2), ElementsAre(128, 256));
  EXPECT_THAT(ends(10, 4), ElementsAre(2, 5, 7, 10));
  EXPECT_THAT(ends(3, 3), ElementsAre(1, 2, 3));
}

TEST(loss_by_position, losses_count_where_their_tokens_stand_in_the_document) {
  constexpr std::int64_t kLength = 4;
  std::vector<std::int32_t> memory(data::TokenBatch::kArrays * 2 * kLength);
  const data::TokenBatch batch = data::TokenBatch::in(memory, 2, kLength);
  const std::vector<std::int32_t> positions{0, 1, 2, 3, 0, 1, 0, 1};  // a document starts at row 2
  std::ranges::copy(positions, batch.positions.begin());
  std::iota(batch.targets.begin(), batch.targets.end(), 0);
  batch.targets[5] = -1;  // the last token of the first document there
  const std::vector<double> losses{1, 2, 4, 8, 16, 0, 32, 64};

  LossByPosition halves(kLength, 2);
  halves.add(batch, losses);
  EXPECT_THAT(halves.bins(), ElementsAre(Bin{0, 2, 5, 1 + 2 + 16 + 32 + 64}, Bin{2, 4, 2, 4 + 8}));
  EXPECT_EQ(halves.bins()[1].mean(), 6);

  LossByPosition single(kLength, kLength);
  single.add(batch, losses);
  single.add(batch, losses);
  EXPECT_THAT(single.bins(), ElementsAre(Bin{0, 1, 6, 2 * (1 + 16 + 32)}, Bin{1, 2, 4, 2 * 66},
                                         Bin{2, 3, 2, 8}, Bin{3, 4, 2, 16}));
}

}  // namespace
}  // namespace trireme
