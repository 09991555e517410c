#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "parallel/comm/shared_cell.h"

// File format of a flight recorder (RUN_DIR/flight-recorder/rank-00000), little-endian, of fixed
// size:
//        0  header, 256 bytes
//      256  progress, 256 bytes
//      512  number of calls begun, 8 bytes
//      520  how the rank ended, 8 bytes, and when, 8 bytes
//      536  ranks it saw fail before it (flight_recorder_losses.h), 64 bytes
//     1024  groups, 32 of 256 bytes
//    12288  ring buffer of the last 4096 calls, 64 bytes each: call n is in slot n % 4096
// Each record begins with an 8-byte version, odd while it is written (SharedCell); the version of
// call n is 2 n + 2. Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a node share.
// External programs read these files: change kVersion with every change of a value or an offset.
namespace trireme::flight {

inline constexpr std::array<char, 8> kMagic{'T', 'R', 'I', 'L', 'E', 'D', 'G', 'R'};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kGroups = 32;
inline constexpr std::size_t kCalls = 4096;

// Phase of a step or of the run.
enum class Phase : std::uint8_t {
  kStart = 0,  // planning, opening files
  kLoad = 1,   // a checkpoint, or initial weights
  kData = 2,   // reading the tokens of a step
  kForward = 3,
  kBackward = 4,
  kReduce = 5,  // reduction of gradients and loss over ranks
  kGradNorm = 6,
  kOptimizer = 7,
  kPublish = 8,  // all-gather of updated weights
  kReport = 9,   // exchange of statistics after a step
  kValidate = 10,
  kSave = 11,      // a checkpoint
  kEnd = 12,       // closing logs, exit
  kSnapshot = 13,  // copy of the state, in memory or to be written
};
const char* name_of(Phase phase);

enum class Operation : std::uint8_t {
  kNone = 0,
  kAllReduce = 1,
  kAllGather = 2,
  kReduceScatter = 3,
  kAllToAll = 4,
  kBroadcast = 5,
  kBarrier = 6,
  kSend = 7,
  kReceive = 8,
  kSplit = 9,  // creation of a group
};
const char* name_of(Operation operation);
inline bool is_message(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kReceive;
}

// How a rank ended, if it could record it.
enum class Ending : std::uint8_t {
  kNone = 0,    // running, or killed
  kDone = 1,    // normal exit
  kByPeer = 2,  // failure of another rank
  kFailed = 3,  // failure of this rank
};

struct Header {
  std::array<char, 8> magic = {};  // kMagic; other values: never initialized
  std::uint32_t version = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 1;  // world size
  std::int32_t pid = 0;
  std::int64_t started_unix = 0;
  std::int64_t started = 0;  // the same moment by CLOCK_MONOTONIC
  std::array<char, 64> host = {};
};

// Current activity of the rank.
struct Progress {
  std::uint64_t tick = 0;         // incremented by every change
  std::int64_t changed = 0;       // time of the last change
  std::int64_t step = 0;          // current step; 0 before the first
  std::int32_t micro_batch = -1;  // -1: none
  std::int32_t layer = -1;        // index over the whole model; -1: none
  std::uint32_t phase = 0;
  std::uint32_t operation = 0;  // the call it waits in, if any
  std::int32_t group = -1;      // group of the call
  std::int32_t peer = -1;       // world rank of a message's peer
  std::uint64_t sequence = 0;   // sequence number of the call
  std::uint64_t bytes = 0;
  std::int64_t waits_since = 0;
};

inline constexpr std::size_t kListedMembers = 44;

struct GroupInfo {
  std::array<char, 24> name = {};  // empty: unused slot
  std::uint64_t key = 0;           // hash of the name and of all members
  std::uint32_t size = 0;
  std::uint32_t rank = 0;                                 // rank of this process in the group
  std::array<std::int32_t, kListedMembers> members = {};  // world ranks of the first members
};

// Collectives and messages of a group have separate sequence numbers, from 1. All members begin the
// same collectives in the same order.
struct Group {
  SharedCell<GroupInfo> info;
  std::atomic<std::uint64_t> begun = 0;      // collectives
  std::atomic<std::uint64_t> finished = 0;   // collectives
  std::atomic<std::uint64_t> messages = 0;   // messages begun
  std::atomic<std::uint64_t> operation = 0;  // of the last collective
};

struct Call {
  std::uint64_t sequence = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;  // 0: not ended, or failed
  std::uint64_t bytes = 0;
  std::int64_t step = 0;
  std::int32_t micro_batch = -1;
  std::int16_t layer = -1;
  std::uint8_t group = 0;
  std::uint8_t operation = 0;
  std::int32_t peer = -1;
  std::uint8_t phase = 0;
  std::array<std::uint8_t, 3> unused = {};
};
inline constexpr std::size_t kEndWord = offsetof(Call, end) / 8;

struct Layout {
  alignas(256) SharedCell<Header> header;
  alignas(256) SharedCell<Progress> progress;
  alignas(512) std::atomic<std::uint64_t> calls_begun = 0;
  std::atomic<std::uint64_t> ending = 0;
  std::atomic<std::int64_t> ended = 0;  // 0: not ended, or no record
  alignas(1024) std::array<Group, kGroups> groups;
  alignas(4096) std::array<SharedCell<Call>, kCalls> calls;
};
static_assert(offsetof(Layout, progress) == 256 && offsetof(Layout, calls_begun) == 512 &&
              offsetof(Layout, ending) == 520 && offsetof(Layout, ended) == 528 &&
              offsetof(Layout, groups) == 1024 && offsetof(Layout, calls) == 12288);
static_assert(sizeof(Group) == 256 && sizeof(SharedCell<Call>) == 64 &&
              sizeof(Layout) == 12288 + kCalls * 64);

}  // namespace trireme::flight
