#include "checkpoint/store/retention.h"

#include <algorithm>
#include <utility>

#include "checkpoint/format/names.h"
#include "checkpoint/read/load.h"
#include "checkpoint/store/commit.h"
#include "model/base/error.h"

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

// Newest first. An unreadable checkpoint is ordered right after the newest one of a smaller step:
// it is better to report it too early than never.
void sort_by_lineage(std::vector<Summary>& summaries) {
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < summaries.size(); ++i) {
    double age = -1;
    if (summaries[i].manifest) {
      age = static_cast<double>(summaries[i].manifest->sequence);
    } else {
      for (const Summary& other : summaries) {
        if (!other.manifest || other.step >= summaries[i].step) continue;
        age = std::max(age, static_cast<double>(other.manifest->sequence) + 0.5);
      }
    }
    order.emplace_back(age, i);
  }
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    return std::pair(a.first, summaries[a.second].step) >
           std::pair(b.first, summaries[b.second].step);
  });
  std::vector<Summary> sorted;
  for (const auto& [age, i] : order) sorted.push_back(std::move(summaries[i]));
  summaries = std::move(sorted);
}

bool verified(const Summary& summary, const std::string& run, std::set<std::int64_t>& good) {
  if (!summary.manifest || summary.manifest->run != run) return false;
  if (good.contains(summary.step)) return true;
  if (!problems_of(summary.folder).empty()) return false;
  good.insert(summary.step);
  return true;
}

}  // namespace

std::vector<Summary> list_checkpoints(const fs::path& folder) {
  std::vector<Summary> summaries;
  std::error_code why;
  if (!fs::exists(folder, why)) return summaries;
  for (const auto& entry : fs::directory_iterator(folder, why)) {
    const auto step = step_of(entry.path().filename().string());
    if (!step) continue;
    Summary summary{*step, entry.path(), std::nullopt, ""};
    try {
      summary.manifest = read_manifest(entry.path());
    } catch (const Error& error) {
      summary.problem = error.what();
    }
    summaries.push_back(std::move(summary));
  }
  if (why) {
    throw EnvironmentError(say("cannot list ", folder.string(), ": ", why.message()));
  }
  sort_by_lineage(summaries);
  return summaries;
}

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
