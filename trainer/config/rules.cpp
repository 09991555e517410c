#include "trainer/config/rules.h"

#include "trainer/config/rules_by_subject.h"

namespace trireme {

void check_rules(const LoadedConfig& loaded, Complaints& complaints, Purpose purpose) {
  model_rules(loaded, complaints, purpose);
  training_rules(loaded, complaints, purpose);
  if (purpose != Purpose::kInference) data_rules(loaded, complaints, purpose);
  layout_rules(loaded, complaints, purpose);
  checkpoint_rules(loaded, complaints, purpose);
}

}  // namespace trireme
