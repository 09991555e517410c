#include "trainer/commands/machine.h"

#include <fmt/format.h>
#include <sched.h>

#include <thread>

#include "model/base/human.h"
#include "model/device/cpu/processor.h"
#include "model/device/devices.h"
#include "model/ops/libraries.h"
#include "parallel/comm/versions.h"

namespace trireme {
namespace {

std::string instruction_sets() {
  std::string sets;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) sets += " AVX2";
  if (__builtin_cpu_supports("fma")) sets += " FMA";
  if (__builtin_cpu_supports("avx512f")) sets += " AVX-512F";
  if (__builtin_cpu_supports("avx512bf16")) sets += " AVX512-BF16";
#endif
  return sets.empty() ? " no AVX2, FMA or AVX-512" : sets;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

// "NCCL 2.28.9", or "NCCL 2.28.9 (built with 2.27.3)".
std::string library(const std::string& name, const std::string& compiled,
                    const std::string& running) {
  std::string text = name + " " + running;
  if (compiled != running) text += " (built with " + compiled + ")";
  return text;
}

// "13.0" of 13000.
std::string cuda_version(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace

std::string program_text() {
  return "trireme " TRIREME_VERSION " (" TRIREME_BUILD_TYPE ", " TRIREME_COMPILER ")";
}

std::string processor_text() {
  return fmt::format("{}, {} of {} cores usable,{}", cpu::processor().name, usable_cores(),
                     std::thread::hardware_concurrency(), instruction_sets());
}

std::string libraries_text() {
  return "HDF5 " TRIREME_HDF5_VERSION ", OpenBLAS " TRIREME_OPENBLAS_VERSION
         ", oneDNN " TRIREME_DNNL_VERSION ", Highway " TRIREME_HIGHWAY_VERSION
         ", SentencePiece " TRIREME_SENTENCEPIECE_VERSION ", toml++ " TRIREME_TOML_VERSION
         ", xxHash " TRIREME_XXHASH_VERSION ", ISA-L " TRIREME_ISAL_VERSION
         ", libsodium " TRIREME_SODIUM_VERSION ", " +
         comm::mpi_version();
}

std::string cuda_text() {
  const CudaVersions cuda = cuda_versions();
  if (cuda.compiled == 0) return "built without CUDA";
  std::string text = library("CUDA", cuda_version(cuda.compiled), cuda_version(cuda.running));
  for (const ops::LibraryVersion& found : ops::cuda_libraries()) {
    text += ", " + library(found.name, found.compiled, found.running);
  }
  const comm::NcclVersion nccl = comm::nccl_version();
  text += ", " + library("NCCL", nccl.compiled, nccl.running);
  return text + (cuda.driver == 0 ? std::string(", no driver")
                                  : ", driver for CUDA " + cuda_version(cuda.driver));
}

std::vector<std::string> cuda_device_texts() {
  const CudaDevices& found = cuda_devices();
  if (found.count == 0) return {"no device: " + found.reason};
  std::vector<std::string> texts;
  for (int index = 0; index < found.count; ++index) {
    const DeviceProperties device = properties_of({Device::Kind::kCuda, index});
    texts.push_back(fmt::format("cuda:{}: {}, compute capability {}.{}, {} free of {}", index,
                                device.name, device.major, device.minor,
                                human_bytes(device.free_bytes), human_bytes(device.memory_bytes)));
  }
  return texts;
}

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
