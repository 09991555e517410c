#pragma once
#include <map>
#include <string>
#include <vector>

#include "tests/trainer/tools/plan/published_runs.h"

namespace trireme::published {

using Profiles = std::map<std::string, DeviceProfile>;

Profiles listed_by_name();

// Changes what each profile reaches of its peaks (never a peak) so that the runs for fitting come
// out best: the mean of |log(predicted / measured)|, and a little for every departure from what
// was listed. One device at a time, one efficiency after the other.
void fit(const std::vector<Run>& runs, Profiles& profiles);

// What fit has changed, for people to copy into device_table.cpp.
std::string text_of(const DeviceProfile& profile);

}  // namespace trireme::published
