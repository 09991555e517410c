#include "data/open_tokens.h"

#include <fnmatch.h>
#include <xxhash.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "data/datatrove_shard.h"
#include "data/headed_shard.h"
#include "data/indexed_dataset.h"
#include "data/token_stream.h"
#include "model/base/error.h"

namespace trireme::data {
namespace {

// Concatenation of several streams; documents are numbered consecutively.
class ShardList : public TokenStream {
 public:
  // At least one shard.
  ShardList(std::vector<std::unique_ptr<TokenStream>> shards, const std::string& name);

  const char* format() const override { return shards_.front()->format(); }
  TokenType type() const override { return shards_.front()->type(); }
  std::int64_t tokens() const override { return first_token_.back(); }
  std::int64_t documents() const override { return first_document_.back(); }
  std::int64_t document_begin(std::int64_t document) const override;
  void read(std::int64_t first, std::span<std::int32_t> into) const override;
  std::int64_t token(std::int64_t at) const override;
  std::optional<std::int64_t> find_outside(std::int64_t vocab_size, std::int64_t first,
                                           std::int64_t last) const override;
  std::uint64_t index_bytes() const override;
  std::uint64_t token_bytes() const override;
  std::uint64_t sampled_hash() const override;

 private:
  std::vector<std::unique_ptr<TokenStream>> shards_;
  std::vector<std::int64_t> first_token_, first_document_;  // [shards + 1]
};

// The shard that contains position `at`, given the shards' first positions.
std::size_t shard_of(const std::vector<std::int64_t>& firsts, std::int64_t at) {
  const auto after = std::upper_bound(firsts.begin(), firsts.end(), at);
  return static_cast<std::size_t>(after - firsts.begin()) - 1;
}

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

namespace fs = std::filesystem;

std::unique_ptr<TokenStream> open_shard(const fs::path& path) {
  if (path.extension() == ".ds") return std::make_unique<DatatroveShard>(path);
  return std::make_unique<HeadedShard>(path);
}

std::unique_ptr<TokenStream> open_shards(const fs::path& pattern) {
  const fs::path folder = pattern.has_parent_path() ? pattern.parent_path() : fs::path(".");
  std::vector<fs::path> found;
  std::error_code why;
  for (const auto& entry : fs::directory_iterator(folder, why)) {
    const std::string name = entry.path().filename().string();
    const bool fits = fnmatch(pattern.filename().c_str(), name.c_str(), FNM_PERIOD) == 0;
    if (fits && entry.is_regular_file(why)) found.push_back(entry.path());
  }
  if (found.empty()) {
    throw DataError(say(pattern.string(),
                        ": no file matches; give shards of llm.c or LLM.Q as FOLDER/NAME*.bin, of "
                        "datatrove as FOLDER/*.ds"));
  }
  std::sort(found.begin(), found.end());
  std::vector<std::unique_ptr<TokenStream>> shards;
  for (const fs::path& path : found) shards.push_back(open_shard(path));
  return std::make_unique<ShardList>(std::move(shards), pattern.string());
}

}  // namespace

std::unique_ptr<TokenStream> open_tokens(const fs::path& path) {
  std::error_code why;
  const bool is_pair = fs::exists(index_path(path), why);
  if (is_pair) return std::make_unique<IndexedDataset>(path);
  if (fs::is_regular_file(path, why)) return open_shard(path);
  if (path.filename().string().find('*') != std::string::npos) return open_shards(path);
  return std::make_unique<IndexedDataset>(path);
}

}  // namespace trireme::data
