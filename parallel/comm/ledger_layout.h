#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "parallel/comm/shared_cell.h"

// What a ledger's file holds (RUN_DIR/flight-recorder/rank-00000), little-endian, of one size:
//        0  header, 256 bytes
//      256  progress, 256 bytes
//      512  how many calls were begun, 8 bytes
//      520  how the rank ended, 8 bytes, and when, 8 bytes
//      536  whom it saw go before it (ledger_losses.h), 64 bytes
//     1024  groups, 32 of 256 bytes
//    12288  the newest 4096 calls, 64 bytes each: call n is at place n % 4096
// Each begins with a version of 8 bytes, odd while it is written (SharedCell); a call's is
// 2 n + 2. Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a node share.
// Programs outside read these files: do not change a number or a place without kVersion.
namespace trireme::ledger {

inline constexpr std::array<char, 8> kMagic{'T', 'R', 'I', 'L', 'E', 'D', 'G', 'R'};
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::size_t kGroups = 32;
inline constexpr std::size_t kCalls = 4096;

// What a rank is about.
enum class Phase : std::uint8_t {
  kStart = 0,      // planning, opening files
  kLoad = 1,       // a checkpoint, or the first weights
  kData = 2,       // reading a step's tokens
  kForward = 3,    //
  kBackward = 4,   //
  kReduce = 5,     // what other ranks hold of the gradients and the loss
  kGradNorm = 6,   //
  kOptimizer = 7,  //
  kPublish = 8,    // the new weights, to those that compute with them
  kReport = 9,     // what the ranks tell each other after a step
  kValidate = 10,  //
  kSave = 11,      // a checkpoint
  kEnd = 12,       // logs, leaving
  kSnapshot = 13,  // a copy of the state, in memory or to be written
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
  kSplit = 9,  // a new group is made
};
const char* name_of(Operation operation);
inline bool is_message(Operation operation) {
  return operation == Operation::kSend || operation == Operation::kReceive;
}

// How a rank ended, as far as it could still say so itself.
enum class Ending : std::uint8_t {
  kNone = 0,    // it works, or was killed
  kDone = 1,    // it left in order
  kByPeer = 2,  // because of another rank
  kFailed = 3,  // by its own failure
};

struct Header {
  std::array<char, 8> magic = {};  // kMagic, or the ledger was never begun
  std::uint32_t version = 0;
  std::int32_t rank = 0;
  std::int32_t ranks = 1;  // in the world
  std::int32_t pid = 0;
  std::int64_t started_unix = 0;  // nanoseconds since 1970
  std::int64_t started = 0;       // the same moment
  std::array<char, 64> host = {};
};

// What the rank does now.
struct Progress {
  std::uint64_t tick = 0;         // grows with every change
  std::int64_t changed = 0;       // the last one's time
  std::int64_t step = 0;          // being made; 0 before the first
  std::int32_t micro_batch = -1;  // none
  std::int32_t layer = -1;        // counted over the whole model; none
  std::uint32_t phase = 0;
  std::uint32_t operation = 0;  // the call it waits in, if any
  std::int32_t group = -1;      // of the call
  std::int32_t peer = -1;       // of a message, counted in the world
  std::uint64_t sequence = 0;   // of the call
  std::uint64_t bytes = 0;
  std::int64_t waits_since = 0;
};

inline constexpr std::size_t kListedMembers = 44;

struct GroupInfo {
  std::array<char, 24> name = {};  // empty: the place is free
  std::uint64_t key = 0;           // a hash of the name and all members
  std::uint32_t size = 0;
  std::uint32_t rank = 0;                                 // this one's in the group
  std::array<std::int32_t, kListedMembers> members = {};  // the first ones, counted in the world
};

// Collectives and messages of a group are counted apart, from 1: every member begins
// the same collectives in the same order.
struct Group {
  SharedCell<GroupInfo> info;
  std::atomic<std::uint64_t> begun = 0;      // collectives
  std::atomic<std::uint64_t> finished = 0;   // collectives
  std::atomic<std::uint64_t> messages = 0;   // begun
  std::atomic<std::uint64_t> operation = 0;  // the last collective's
};

struct Call {
  std::uint64_t sequence = 0;
  std::int64_t start = 0;
  std::int64_t end = 0;  // 0: not yet, or never
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
  std::atomic<std::int64_t> ended = 0;  // 0: not, or unawares
  alignas(1024) std::array<Group, kGroups> groups;
  alignas(4096) std::array<SharedCell<Call>, kCalls> calls;
};
static_assert(offsetof(Layout, progress) == 256 && offsetof(Layout, calls_begun) == 512 &&
              offsetof(Layout, ending) == 520 && offsetof(Layout, ended) == 528 &&
              offsetof(Layout, groups) == 1024 && offsetof(Layout, calls) == 12288);
static_assert(sizeof(Group) == 256 && sizeof(SharedCell<Call>) == 64 &&
              sizeof(Layout) == 12288 + kCalls * 64);

}  // namespace trireme::ledger
