#pragma once
#include <functional>
#include <string>
#include <vector>

#include "data/sequencer.h"
#include "parallel/comm/world.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/rank_groups.h"
#include "trainer/supervise/preflight/check.h"

// What a preflight looks at, a check each, in a file of its own. Arguments outlive the checks.
namespace trireme::preflight {

// That all ranks run one program, with one config (its text), over the same shared libraries.
// The others mean nothing where this fails.
Check same_program(const std::string& config_text);

// Who started the ranks, where they are, and that their tensors go one way.
Check launch(const World& world);

// That the process may open the files and connections of so many ranks; tells how much memory
// it may lock.
Check process_limits(int ranks);

// How far the nodes' clocks are apart, which is told and no fault. `all`: the ranks.
Check clocks(Communicator& all);

// The device that `name` (job.device) gives this rank, its memory, and what NVML tells of a
// GPU: uncorrected memory errors, clocks that are held down, links that are lost.
Check device_health(const std::string& name, int local_rank);

// That a matrix product of the run's dtype has exactly the bits it must have, and that no rank
// is slower than kSlow of the median. About `seconds` of work.
inline constexpr double kSlow = 0.8;
Check matrix_product(const std::string& dtype, Device device, double seconds, Communicator& all);

// Of each axis that is in use: that a sum over the group, or a message along the pipeline, has
// the right bits; the time of a small call and the bytes per second of a large one.
Check axes(const RankGroups& groups, Device device, bool thorough);

// That the run fits the memory of this rank and its node, and the memory tier and what MPI
// shares fit theirs.
Check memory_room(const RunConfig& config, const World& world, const RankGroups& groups,
                  Device device);

// That files can be made, synced, renamed and locked where the run's go; and, where it is
// `thorough`, how fast, and that two checkpoints find room.
Check folders(const RunConfig& config, const RankGroups& groups, Device device, bool thorough);

// That all ranks see the same token files, and no id of some samples is outside the vocabulary.
Check token_files(std::function<const data::SampleSource&()> open);

}  // namespace trireme::preflight
