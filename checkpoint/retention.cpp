#include "checkpoint/retention.h"

#include "checkpoint/commit.h"
#include "checkpoint/load.h"
#include "model/base/error.h"

namespace trireme::checkpoint {
namespace {

bool verified(const Summary& summary, const std::string& run, std::set<std::int64_t>& good) {
  if (!summary.manifest || summary.manifest->run != run) return false;
  if (good.contains(summary.step)) return true;
  if (!problems_of(summary.folder).empty()) return false;
  good.insert(summary.step);
  return true;
}

}  // namespace

std::vector<std::int64_t> prune(const std::vector<Summary>& checkpoints, const std::string& run,
                                const Retention& retention, std::set<std::int64_t>& good) {
  require(retention.keep_latest >= 2, "at least two checkpoints must be kept");
  int counted = 0;
  std::vector<const Summary*> surplus;
  for (const Summary& summary : checkpoints) {
    if (counted < retention.keep_latest) {
      counted += verified(summary, run, good) ? 1 : 0;
    } else if (retention.keep_every == 0 || summary.step % retention.keep_every != 0) {
      surplus.push_back(&summary);
    }
  }
  std::vector<std::int64_t> removed;
  for (auto oldest = surplus.rbegin(); oldest != surplus.rend(); ++oldest) {
    remove_checkpoint((*oldest)->folder);
    good.erase((*oldest)->step);
    removed.push_back((*oldest)->step);
  }
  return removed;
}

}  // namespace trireme::checkpoint
