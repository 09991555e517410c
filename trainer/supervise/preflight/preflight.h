#pragma once
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/team.h"
#include "trainer/supervise/preflight/check.h"

namespace trireme::preflight {

// What came of a check.
struct Row {
  std::string name;
  Judgement judgement;
  std::vector<Figures> by_rank;
};

// Looks at a job's ranks before it begins: each check is made by all of them, judged by the
// leading one, and told as soon as it is judged, so that one which hangs is known too. All
// ranks make all calls. The leading rank alone has rows.
class Preflight {
 public:
  using Tell = std::function<void(const std::string& line)>;
  // `hosts` by rank. `tell` gets a line a check, on the leading rank; may be empty.
  Preflight(const checkpoint::Team& team, std::vector<std::string> hosts, Tell tell = {});

  void make(const Check& check);
  // Throws EnvironmentError on all ranks, naming the ranks at fault and their nodes, when a
  // check has failed so far: later ones may not be possible then.
  void require_passed() const;

  bool passed() const;
  // {"passed", "ranks", "hosts", "checks": [{"name", "passed", "text", "faults", "by_rank"}]}
  Figures report() const;
  // The same without what each rank measured.
  Figures summary() const;

 private:
  std::string blame() const;
  std::string named(const std::vector<int>& ranks) const;

  checkpoint::Team team_;
  std::vector<std::string> hosts_;
  Tell tell_;
  std::vector<Row> rows_;
};

}  // namespace trireme::preflight
