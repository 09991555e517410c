#include "data/token_batch.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace trireme::data {
namespace {

using Tokens = std::vector<std::int32_t>;

TEST(SampleHash, depends_on_the_number_and_on_every_token_and_its_place) {
  const Tokens ids{1, 2, 3, 4}, targets{2, 3, 4, 5};
  std::set<std::uint64_t> hashes{sample_hash(7, ids, targets)};
  EXPECT_EQ(hashes.count(sample_hash(7, Tokens(ids), Tokens(targets))), 1u);
  hashes.insert(sample_hash(8, ids, targets));
  hashes.insert(sample_hash(7, targets, ids));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Tokens other_ids = ids, other_targets = targets;
    other_ids[i] += 1 << 20;
    other_targets[i] = -1;  // masked
    hashes.insert(sample_hash(7, other_ids, targets));
    hashes.insert(sample_hash(7, ids, other_targets));
  }
  EXPECT_EQ(hashes.size(), 3 + 2 * ids.size());
}

}  // namespace
}  // namespace trireme::data
