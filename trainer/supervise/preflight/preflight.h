#pragma once
#include <functional>
#include <string>
#include <vector>

#include "parallel/comm/team.h"
#include "trainer/supervise/preflight/check.h"

namespace trireme::preflight {

// The result of a check.
struct CheckResult {
  std::string name;
  Judgment judgment;
  std::vector<Figures> by_rank;
};

// Runs preflight checks on all ranks of a job: every rank measures, rank 0 judges and prints the
// result at once, so that a hung check is identified by the lines before it. All functions are
// collective. Only rank 0 has results.
class Preflight {
 public:
  using PrintLine = std::function<void(const std::string& line)>;
  // `hosts`: by rank. `print`: receives one line per result on rank 0; may be empty.
  Preflight(const Team& team, std::vector<std::string> hosts, PrintLine print = {});

  void make(const Check& check);
  // Throws EnvironmentError on all ranks, naming the ranks and nodes at fault, if a check has
  // failed so far. Call it before checks that depend on earlier ones.
  void require_passed() const;

  bool passed() const;
  // All results as JSON: {"passed", "ranks", "hosts", "checks": [{"name", "passed", "text",
  // "faults", "by_rank"}]}.
  Figures report() const;
  // The report without "hosts" and the measurements of each rank.
  Figures summary() const;

 private:
  std::string blame() const;
  std::string named(const std::vector<int>& ranks) const;

  Team team_;
  std::vector<std::string> hosts_;
  PrintLine print_;
  std::vector<CheckResult> results_;
};

}  // namespace trireme::preflight
