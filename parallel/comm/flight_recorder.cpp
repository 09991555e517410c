#include "parallel/comm/flight_recorder.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <limits>
#include <new>
#include <span>

#include "model/base/error.h"

namespace trireme {
namespace {

std::int64_t nanoseconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

template <std::size_t n>
void put(std::array<char, n>& chars, const std::string& text) {
  chars = {};
  std::copy_n(text.begin(), std::min(text.size(), n - 1), chars.begin());
}

// FNV-1a.
std::uint64_t key_of(const std::string& name, const std::vector<int>& members) {
  std::uint64_t key = 0xcbf29ce484222325;
  const auto mix = [&key](std::uint64_t value) { key = (key ^ value) * 0x100000001b3; };
  for (const char c : name) mix(static_cast<unsigned char>(c));
  for (const int member : members) mix(static_cast<std::uint64_t>(member) + 256);
  return key;
}

}  // namespace

std::string flight_recorder_file_name(int rank) {
  const std::string digits = std::to_string(rank);
  return "rank-" + std::string(5 - std::min<std::size_t>(digits.size(), 5), '0') + digits;
}

std::int64_t flight_recorder_now() {
  return nanoseconds(CLOCK_MONOTONIC);
}

const char* flight::name_of(Phase phase) {
  constexpr std::array kNames{"start",      "load",          "data",      "forward",    "backward",
                              "reduction",  "gradient norm", "optimizer", "publishing", "report",
                              "validation", "save",          "end",       "snapshot"};
  const auto index = static_cast<std::size_t>(phase);
  return index < kNames.size() ? kNames[index] : "unknown phase";
}

const char* flight::name_of(Operation operation) {
  constexpr std::array kNames{"nothing",    "all_reduce", "all_gather", "reduce_scatter",
                              "all_to_all", "broadcast",  "barrier",    "send",
                              "receive",    "split"};
  const auto index = static_cast<std::size_t>(operation);
  return index < kNames.size() ? kNames[index] : "unknown call";
}

FlightRecorder::FlightRecorder() {
  void* memory = ::mmap(nullptr, sizeof(flight::Layout), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw EnvironmentError("no memory for the flight recorder");
  layout_ = new (memory) flight::Layout;
}

FlightRecorder::~FlightRecorder() {
  ::munmap(layout_, sizeof(flight::Layout));
}

void FlightRecorder::begin(int rank, int ranks, const std::string& host) {
  flight::Header header{.magic = flight::kMagic,
                        .version = flight::kVersion,
                        .rank = rank,
                        .ranks = ranks,
                        .pid = ::getpid(),
                        .started_unix = nanoseconds(CLOCK_REALTIME),
                        .started = flight_recorder_now(),
                        .host = {}};
  put(header.host, host);
  layout_->header.write(header);
  publish();
}

void FlightRecorder::keep_in(const std::filesystem::path& path) {
  std::filesystem::path beside = path;
  beside += ".new";
  std::filesystem::remove(beside);  // left by a process that was killed
  File file = File::create_new(beside);
  // A page that cannot be allocated later would kill the process with SIGBUS: allocate all pages
  // now.
  if (const int why = ::posix_fallocate(file.descriptor(), 0, sizeof(flight::Layout)); why != 0) {
    std::filesystem::remove(beside);
    throw EnvironmentError(say("cannot write ", path.string(), ": ", std::strerror(why)));
  }
  file.write_all(std::as_bytes(std::span(layout_, 1)));
  void* mapped = ::mmap(layout_, sizeof(flight::Layout), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED, file.descriptor(), 0);
  if (mapped == MAP_FAILED) {
    throw EnvironmentError(say("cannot map ", path.string(), ": ", std::strerror(errno)));
  }
  std::filesystem::rename(beside, path);
  file_ = path;
  is_kept_.store(true, std::memory_order_release);
}

void FlightRecorder::enter(Phase phase) {
  progress_.phase = static_cast<std::uint32_t>(phase);
  progress_.micro_batch = -1;
  progress_.layer = -1;
  publish();
  if (observer_) observer_(progress_);
}

void FlightRecorder::set_step(std::int64_t step) {
  progress_.step = step;
  publish();
}

void FlightRecorder::set_micro_batch(int micro_batch) {
  progress_.micro_batch = micro_batch;
  progress_.layer = -1;
  publish();
}

void FlightRecorder::set_layer(int layer) {
  progress_.layer = layer;
  publish();
}

int FlightRecorder::add_group(const std::string& name, const std::vector<int>& members) {
  require(!name.empty(), "a group without a name");
  const std::int32_t own = layout_->header.read().value.rank;
  for (std::size_t i = 0; i < layout_->groups.size(); ++i) {
    flight::Group& group = layout_->groups[i];
    if (group.info.read().value.name[0] != '\0') continue;
    flight::GroupInfo info{.name = {},
                           .key = key_of(name, members),
                           .size = static_cast<std::uint32_t>(members.size()),
                           .rank = static_cast<std::uint32_t>(
                               std::find(members.begin(), members.end(), own) - members.begin()),
                           .members = {}};
    put(info.name, name);
    std::copy_n(members.begin(), std::min(members.size(), info.members.size()),
                info.members.begin());
    for (auto* count : {&group.begun, &group.finished, &group.messages, &group.operation}) {
      count->store(0, std::memory_order_relaxed);
    }
    group.info.write(info);
    return static_cast<int>(i);
  }
  throw Error(
      say("group '", name, "': the flight recorder supports at most ", flight::kGroups, " groups"));
}

void FlightRecorder::remove_group(int group) {
  layout_->groups[static_cast<std::size_t>(group)].info.write({});
}

FlightRecorder::Entry FlightRecorder::begin_collective(int group, Operation operation,
                                                       std::uint64_t bytes) {
  flight::Group& counts = layout_->groups[static_cast<std::size_t>(group)];
  const std::uint64_t sequence = counts.begun.load(std::memory_order_relaxed) + 1;
  counts.operation.store(static_cast<std::uint64_t>(operation), std::memory_order_relaxed);
  counts.begun.store(sequence, std::memory_order_release);
  const Entry entry = enter_call(group, operation, sequence, bytes, -1);
  wait_in(entry.call);
  return entry;
}

FlightRecorder::Entry FlightRecorder::start_message(int group, Operation operation,
                                                    std::uint64_t bytes, int peer) {
  flight::Group& counts = layout_->groups[static_cast<std::size_t>(group)];
  const std::uint64_t sequence = counts.messages.load(std::memory_order_relaxed) + 1;
  counts.messages.store(sequence, std::memory_order_release);
  return enter_call(group, operation, sequence, bytes, peer);
}

void FlightRecorder::leave() {
  progress_.operation = static_cast<std::uint32_t>(Operation::kNone);
  publish();
}

void FlightRecorder::wait_for(const Entry& entry) {
  wait_in(entry.call);
}

FlightRecorder::Entry FlightRecorder::enter_call(int group, Operation operation,
                                                 std::uint64_t sequence, std::uint64_t bytes,
                                                 int peer) {
  constexpr int kMostLayer = std::numeric_limits<std::int16_t>::max();
  const Entry entry{
      .number = layout_->calls_begun.load(std::memory_order_relaxed),
      .call = {.sequence = sequence,
               .start = flight_recorder_now(),
               .end = 0,
               .bytes = bytes,
               .step = progress_.step,
               .micro_batch = progress_.micro_batch,
               .layer = static_cast<std::int16_t>(std::min(progress_.layer, kMostLayer)),
               .group = static_cast<std::uint8_t>(group),
               .operation = static_cast<std::uint8_t>(operation),
               .peer = peer,
               .phase = static_cast<std::uint8_t>(progress_.phase)}};
  layout_->calls[entry.number % flight::kCalls].write(entry.call, entry.number);
  layout_->calls_begun.store(entry.number + 1, std::memory_order_release);
  return entry;
}

void FlightRecorder::wait_in(const flight::Call& call) {
  progress_.operation = call.operation;
  progress_.group = call.group;
  progress_.peer = call.peer;
  progress_.sequence = call.sequence;
  progress_.bytes = call.bytes;
  progress_.waits_since = flight_recorder_now();
  publish();
  if (observer_) observer_(progress_);
}

void FlightRecorder::end(const Entry& entry, std::int64_t at) {
  leave();
  auto& place = layout_->calls[entry.number % flight::kCalls];
  if (place.version() == 2 * entry.number + 2) {  // not yet overwritten by a newer call
    place.write_word(flight::kEndWord, static_cast<std::uint64_t>(at > 0 ? at : progress_.changed));
  }
  if (is_message(static_cast<Operation>(entry.call.operation))) return;
  // The calls of a group complete in order, whichever is waited for first.
  std::atomic<std::uint64_t>& finished = layout_->groups[entry.call.group].finished;
  if (finished.load(std::memory_order_relaxed) < entry.call.sequence) {
    finished.store(entry.call.sequence, std::memory_order_release);
  }
}

void FlightRecorder::close(flight::Ending ending) {
  std::uint64_t none = 0;
  if (!layout_->ending.compare_exchange_strong(none, static_cast<std::uint64_t>(ending))) return;
  layout_->ended.store(flight_recorder_now(), std::memory_order_release);
}

void FlightRecorder::publish() {
  ++progress_.tick;
  progress_.changed = flight_recorder_now();
  layout_->progress.write(progress_);
}

}  // namespace trireme
