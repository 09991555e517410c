#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

#include "parallel/comm/team.h"
#include "trainer/loop/run_log.h"

namespace trireme {

// RUN_DIR/gemm_choices.json: the matrix-product library chosen for each shape. Libraries differ in
// the last bits, so all ranks, in any layout, and every resumed run take the same.
class GemmChoices {
 public:
  // All outlive it.
  GemmChoices(const std::filesystem::path& run_folder, const Team& team, RunLog& log);

  // Takes the choices of the run so far. Collective.
  void load();
  // Whether this rank has chosen since, or the file could not be written.
  bool changed() const;
  // Merges the choices of all ranks and writes them. Collective, when any rank has changed().
  void share(std::int64_t step);

 private:
  const std::filesystem::path path_;
  const Team& team_;
  RunLog& log_;
  std::string shared_;
  bool written_ = true;
};

}  // namespace trireme
