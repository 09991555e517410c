#pragma once
#include "parallel/mesh/mesh.h"

namespace trireme {

// `shape` with its 0 replaced by the size derived from `world`. Throws ConfigError as Mesh does.
MeshShape fitted(const MeshShape& shape, int world);

}  // namespace trireme
