#include <gtest/gtest.h>

#include "trainer/config/reader.h"

namespace trireme {
namespace {

TEST(configs, of_the_repository_all_load) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TRIREME_CONFIGS)) {
    if (entry.path().extension() != ".toml") continue;
    ++files;
    EXPECT_NO_THROW(load_config(entry.path(), {})) << entry.path();
  }
  EXPECT_GE(files, 5);
}

TEST(configs, resolve_their_paths_beside_themselves) {
  const RunConfig config =
      load_config(std::filesystem::path(TRIREME_CONFIGS) / "tiny.toml", {}).config;
  const auto root = std::filesystem::path(TRIREME_CONFIGS).parent_path();
  EXPECT_EQ(config.data.train.front().path, root / "tokens/tiny");
  EXPECT_EQ(config.data.tokenizer, "bytes");
}

}  // namespace
}  // namespace trireme
