#include "trainer/commands/version.h"

#include <sched.h>

#include <fstream>
#include <sstream>
#include <thread>

namespace trireme {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 <= line.size()) return line.substr(colon + 2);
  }
  return "unknown processor";
}

std::string instruction_sets() {
  std::string sets;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) sets += " AVX2";
  if (__builtin_cpu_supports("fma")) sets += " FMA";
  if (__builtin_cpu_supports("avx512f")) sets += " AVX-512F";
  if (__builtin_cpu_supports("avx512bf16")) sets += " AVX512-BF16";
#endif
  return sets.empty() ? " none of AVX2, FMA, AVX-512" : sets;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::string version() {
  return TRIREME_VERSION;
}

std::string version_text() {
  std::ostringstream out;
  out << "trireme " << version() << " (" << TRIREME_BUILD_TYPE << ", " << TRIREME_COMPILER << ")\n"
      << "libraries: HDF5 " << TRIREME_HDF5_VERSION << ", OpenBLAS " << TRIREME_OPENBLAS_VERSION
      << ", oneDNN " << TRIREME_DNNL_VERSION << ", SentencePiece " << TRIREME_SENTENCEPIECE_VERSION
      << ", toml++ " << TRIREME_TOML_VERSION << ", xxHash " << TRIREME_XXHASH_VERSION << ", ISA-L "
      << TRIREME_ISAL_VERSION << "\n"
      << "devices: cpu: " << processor_name() << ", " << usable_cores() << " of "
      << std::thread::hardware_concurrency() << " cores usable," << instruction_sets();
  return out.str();
}

}  // namespace trireme
