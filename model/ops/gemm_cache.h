#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "model/ops/choice_table.h"

namespace trireme::ops {

// A user's choices for one machine, in one file shared by all processes: timings of one process are
// reused by the others, and the first to decide a shape wins. It only saves time and never fails:
// if the folder is not usable, it warns once and stores nothing.
class GemmCache {
 public:
  // Uses `folder`/gemm-<machine>.json; no cache if the folder is empty. A file with unknown
  // implementations is overwritten.
  GemmCache(const std::filesystem::path& folder, std::string machine, ChoiceTable::Knows knows);

  std::optional<std::string> find(const std::string& shape);
  // Proposes a timed choice; returns the valid one.
  std::string settle(const std::string& shape, const std::string& measured);

  // $XDG_CACHE_HOME/trireme or ~/.cache/trireme; empty without a home directory.
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
