#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "model/ops/cpu/gemm_choices.h"

namespace trireme::ops::cpu {

// One user's choices for one machine, in one file that all processes share: what
// one has measured the others take over, the first to settle a shape wins. It
// saves time and never fails: where the folder cannot be used it says so once
// and remembers nothing.
class GemmCache {
 public:
  // In `folder`/gemm-<machine>.json; no cache where the folder is empty.
  GemmCache(const std::filesystem::path& folder, std::string machine);

  std::optional<GemmLibrary> find(const std::string& shape);
  // Offers a measured choice; returns the one that holds.
  GemmLibrary settle(const std::string& shape, GemmLibrary measured);

  // $XDG_CACHE_HOME/trireme or ~/.cache/trireme; empty without a home.
  static std::filesystem::path user_folder();

 private:
  void read();
  void give_up(const std::string& why);

  std::filesystem::path file_;
  std::string machine_;
  GemmChoices known_;
  bool read_ = false;
};

}  // namespace trireme::ops::cpu
