#pragma once
#include <vector>

#include "trainer/tools/plan/device/device_profile.h"

namespace trireme {

// What data sheets do not state about a GPU, fitted to published runs (PUBLISHED.md). One set
// serves all devices: what differs between them is by data sheet.
struct Efficiencies {
  // Joules that a matmul's FLOP takes at the full clock, without what an idle device takes. A
  // device that would take more than its power limit lowers its clock, and voltage with it, so that
  // this power falls with the cube of the clock. Those of Blackwells in 16 bits and attention's are
  // measured (device_table.cpp).
  double hopper_joules = 0, float8_joules = 0;
  double half_depth = 0;           // ProductRate::half_depth of all
  double streamed = 0;             // DeviceProfile::streamed of all
  double nvlink = 0, network = 0;  // Link::reached
  double straggling = 0;           // Network::straggling
  double occupied = 0;             // Network::occupied
};

const Efficiencies& fitted_efficiencies();
// The listed profiles, with these instead.
std::vector<DeviceProfile> listed_profiles(const Efficiencies& efficiencies);

}  // namespace trireme
