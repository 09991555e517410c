#include "trainer/engine/host_state.h"

namespace trireme {

void HostState::download(Stream& stream) const {
  masters_.download(stream);
  for (const HostMirror& state : states_) state.download(stream);
  stream.synchronize();
}

void HostState::upload(Stream& stream) const {
  masters_.upload(stream);
  for (const HostMirror& state : states_) state.upload(stream);
  stream.synchronize();
}

}  // namespace trireme
