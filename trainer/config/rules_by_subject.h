#pragma once
#include "trainer/config/rules.h"

namespace trireme {

void model_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);
void training_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);
void data_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);
void layout_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);
void checkpoint_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose);

}  // namespace trireme
