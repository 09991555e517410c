#pragma once
// Stands in for the CUDA toolkit's header, so that a C++ compiler can compile kernels and a
// CPU run them: as much of CUDA's language and runtime as the kernels here use.
#include <emulator/api.h>
#include <emulator/intrinsics.h>
#include <emulator/keywords.h>
#include <emulator/launch.h>
#include <emulator/vectors.h>
#include <emulator/warp.h>
