#include "trainer/engine/host_state.h"

namespace trireme {

void HostState::download(Stream& stream) const {
  for (const HostMirror* mirror : {&masters_, &first_, &second_}) mirror->download(stream);
  stream.synchronize();
}

void HostState::upload(Stream& stream) const {
  for (const HostMirror* mirror : {&masters_, &first_, &second_}) mirror->upload(stream);
  stream.synchronize();
}

}  // namespace trireme
