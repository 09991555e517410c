#include "data/open_tokens.h"

#include <fnmatch.h>

#include <algorithm>
#include <vector>

#include "data/datatrove_shard.h"
#include "data/headed_shard.h"
#include "data/indexed_dataset.h"
#include "data/shard_list.h"
#include "model/base/error.h"

namespace trireme::data {
namespace {

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
