#include "data/shard_list.h"

#include <xxhash.h>

#include <algorithm>

#include "model/base/error.h"

namespace trireme::data {
namespace {

// The shard that contains position `at`, given the shards' first positions.
std::size_t shard_of(const std::vector<std::int64_t>& firsts, std::int64_t at) {
  const auto after = std::upper_bound(firsts.begin(), firsts.end(), at);
  return static_cast<std::size_t>(after - firsts.begin()) - 1;
}

}  // namespace

ShardList::ShardList(std::vector<std::unique_ptr<TokenStream>> shards, const std::string& name)
    : TokenStream(name, name), shards_(std::move(shards)), first_token_{0}, first_document_{0} {
  require(!shards_.empty(), "no shard in ", name);
  for (const auto& shard : shards_) {
    first_token_.push_back(first_token_.back() + shard->tokens());
    first_document_.push_back(first_document_.back() + shard->documents());
  }
}

std::int64_t ShardList::document_begin(std::int64_t document) const {
  if (document == first_document_.back()) return first_token_.back();
  const std::size_t shard = shard_of(first_document_, document);
  return first_token_[shard] + shards_[shard]->document_begin(document - first_document_[shard]);
}

void ShardList::read(std::int64_t first, std::span<std::int32_t> into) const {
  const auto count = static_cast<std::int64_t>(into.size());
  require(first >= 0 && count <= tokens() && first <= tokens() - count, "tokens [", first, ", ",
          first + count, ") of ", tokens());
  for (std::int64_t done = 0; done < count;) {
    const std::size_t shard = shard_of(first_token_, first + done);
    const std::int64_t part = std::min(count - done, first_token_[shard + 1] - (first + done));
    shards_[shard]->read(first + done - first_token_[shard], into.subspan(done, part));
    done += part;
  }
}

std::int64_t ShardList::token(std::int64_t at) const {
  require(at >= 0 && at < tokens(), "token ", at, " of ", tokens());
  const std::size_t shard = shard_of(first_token_, at);
  return shards_[shard]->token(at - first_token_[shard]);
}

std::optional<std::int64_t> ShardList::find_outside(std::int64_t vocab_size, std::int64_t first,
                                                    std::int64_t last) const {
  require(first >= 0 && first <= last && last <= tokens(), "tokens [", first, ", ", last, ") of ",
          tokens());
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
    const std::int64_t begin = std::max(first, first_token_[shard]);
    const std::int64_t end = std::min(last, first_token_[shard + 1]);
    if (begin >= end) continue;
    const std::int64_t base = first_token_[shard];
    const auto at = shards_[shard]->find_outside(vocab_size, begin - base, end - base);
    if (at) return base + *at;
  }
  return std::nullopt;
}

std::uint64_t ShardList::index_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& shard : shards_) sum += shard->index_bytes();
  return sum;
}
std::uint64_t ShardList::token_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& shard : shards_) sum += shard->token_bytes();
  return sum;
}
std::uint64_t ShardList::sampled_hash() const {
  std::vector<std::uint64_t> hashes;
  for (const auto& shard : shards_) hashes.push_back(shard->sampled_hash());
  return XXH3_64bits(hashes.data(), hashes.size() * sizeof(std::uint64_t));
}

}  // namespace trireme::data
