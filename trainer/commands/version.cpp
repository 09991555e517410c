#include "trainer/commands/version.h"

#include "trainer/commands/machine.h"

namespace trireme {

std::string version() {
  return TRIREME_VERSION;
}

std::string version_text() {
  std::string text = program_text() + "\nlibraries: " + libraries_text() +
                     "\nCUDA: " + cuda_text() + "\ndevices: cpu: " + processor_text();
  for (const std::string& device : cuda_device_texts()) text += "\n         " + device;
  return text;
}

}  // namespace trireme
