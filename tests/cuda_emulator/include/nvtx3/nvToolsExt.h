#pragma once
#include <cstdint>
#include <string>

// NVTX's part that the backend uses: ranges are written to a text, one after another, in brackets.
enum nvtxMessageType_t { NVTX_MESSAGE_TYPE_ASCII = 1 };
enum nvtxPayloadType_t { NVTX_PAYLOAD_UNKNOWN = 0, NVTX_PAYLOAD_TYPE_INT64 = 2 };
union nvtxMessageValue_t {
  const char* ascii;
};
union nvtxPayload_t {
  std::int64_t llValue;
};
#define NVTX_VERSION 3
struct nvtxEventAttributes_t {
  std::uint16_t version, size;
  std::int32_t payloadType;
  nvtxPayload_t payload;
  std::int32_t messageType;
  nvtxMessageValue_t message;
};
#define NVTX_EVENT_ATTRIB_STRUCT_SIZE sizeof(nvtxEventAttributes_t)

namespace trireme::emulator {
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
inline std::string* ranges = nullptr;  // where they are written; null: no profiler is attached
}  // namespace trireme::emulator

inline int nvtxRangePushEx(const nvtxEventAttributes_t* range) {
  using trireme::emulator::ranges;
  if (!ranges) return -1;
  *ranges += range->message.ascii;
  if (range->payloadType == NVTX_PAYLOAD_TYPE_INT64) {
    *ranges += ' ' + std::to_string(range->payload.llValue);
  }
  *ranges += '(';
  return 0;
}
inline int nvtxRangePop() {
  if (trireme::emulator::ranges) *trireme::emulator::ranges += ')';
  return 0;
}
