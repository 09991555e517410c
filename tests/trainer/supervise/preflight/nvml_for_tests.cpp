// What of NVML is asked for, for one GPU; TRIREME_TEST_GPU says "errors throttled links-up
// links-down", numbers.
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Gpu {
  unsigned long long errors = 0, throttled = 0;
  unsigned up = 0, down = 0;
};

Gpu gpu() {
  Gpu told;
  const char* text = std::getenv("TRIREME_TEST_GPU");
  if (text != nullptr) {
    std::sscanf(text, "%llu %llu %u %u", &told.errors, &told.throttled, &told.up, &told.down);
  }
  return told;
}

char the_gpu;

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** handle) {
  *handle = &the_gpu;
  return std::strcmp(bus_id, "00000000:1B:00.0") == 0 ? 0 : 6;
}
int nvmlDeviceGetTotalEccErrors(void* /*gpu*/, int kind, int counter, unsigned long long* count) {
  *count = gpu().errors;
  return kind == 1 && counter == 0 ? 0 : 2;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* /*gpu*/, unsigned long long* reasons) {
  *reasons = gpu().throttled;
  return 0;
}
int nvmlDeviceGetTemperature(void* /*gpu*/, int /*sensor*/, unsigned* /*temperature*/) {
  return 3;  // not supported
}
int nvmlDeviceGetNvLinkState(void* /*gpu*/, unsigned link, unsigned* up) {
  const Gpu told = gpu();
  if (link >= told.up + told.down) return 2;
  *up = link < told.up ? 1 : 0;
  return 0;
}
}
