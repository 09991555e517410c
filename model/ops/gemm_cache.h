#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "model/ops/choice_table.h"

namespace trireme::ops {

// One user's choices for one machine, in one file that all processes share: what
// one has measured the others take over, the first to settle a shape wins. It
// saves time and never fails: where the folder cannot be used it says so once
// and remembers nothing.
class GemmCache {
 public:
  // In `folder`/gemm-<machine>.json; no cache where the folder is empty. A file with a way that
  // the machine does not know is written anew.
  GemmCache(const std::filesystem::path& folder, std::string machine, ChoiceTable::Knows knows);

  std::optional<std::string> find(const std::string& shape);
  // Offers a measured choice; returns the one that holds.
  std::string settle(const std::string& shape, const std::string& measured);

  // $XDG_CACHE_HOME/trireme or ~/.cache/trireme; empty without a home.
  static std::filesystem::path user_folder();

 private:
  void read();
  void give_up(const std::string& why);

  std::filesystem::path file_;
  std::string machine_;
  ChoiceTable::Knows knows_;
  ChoiceTable known_;
  bool read_ = false;
};

}  // namespace trireme::ops
