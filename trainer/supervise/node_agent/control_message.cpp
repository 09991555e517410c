#include "trainer/supervise/node_agent/control_message.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/json_object.h"
#include "model/base/error.h"

namespace trireme {
namespace {

using checkpoint::JsonObject;
using nlohmann::json;

// In the order of Kind.
constexpr std::array<const char*, 8> kNames{"hello",   "beat",  "signal", "ended",
                                            "welcome", "heard", "end",    "leave"};
constexpr std::uint64_t kMaxPid = 1u << 30;
constexpr std::uint64_t kMostMilliseconds = std::uint64_t{1} << 53;

json listed(std::vector<std::int64_t> pids) {
  pids.resize(std::min(pids.size(), ControlMessage::kMaxPids));
  return pids;
}

std::vector<std::int64_t> read_pids(JsonObject& object) {
  const json& array = object.array("pids");
  if (array.size() > ControlMessage::kMaxPids) object.refuse("pids", "too many");
  std::vector<std::int64_t> pids;
  for (const json& pid : array) {
    if (!pid.is_number_unsigned() || pid.get<std::uint64_t>() > kMaxPid) {
      object.refuse("pids", "not a process id");
    }
    pids.push_back(pid.get<std::int64_t>());
  }
  return pids;
}

ControlMessage::Kind read_kind(JsonObject& object) {
  const std::string& name = object.text("kind", 16);
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) object.refuse("kind", "unknown");
  return static_cast<ControlMessage::Kind>(found - kNames.begin());
}

}  // namespace

std::string ControlMessage::encoded() const {
  json object = {{"kind", kNames[static_cast<std::size_t>(kind)]}};
  switch (kind) {
    case Kind::kHello:
      object["node"] = node;
      object["pid"] = pid;
      break;
    case Kind::kBeat:
      object["unix_ms"] = unix_ms;
      object["shm_free"] = shm_free;
      object["pids"] = listed(pids);
      object["stopped"] = stopped;
      break;
    case Kind::kSignal:
      object["signal"] = signal;
      break;
    case Kind::kEnded:
      object["order"] = order;
      object["pids"] = listed(pids);
      break;
    case Kind::kWelcome:
      object["mark"] = mark;
      break;
    case Kind::kEnd:
      object["order"] = order;
      object["mark"] = mark;
      break;
    case Kind::kHeard:
    case Kind::kLeave:
      break;
  }
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

ControlMessage ControlMessage::decoded(std::string_view text) {
  const json parsed = checkpoint::parse_json(text, "control message");
  JsonObject object(parsed, "control message");
  ControlMessage message{.kind = read_kind(object)};
  constexpr auto kAny = std::numeric_limits<std::uint64_t>::max();
  switch (message.kind) {
    case Kind::kHello:
      message.node = object.text("node", kMaxNameBytes);
      message.pid = static_cast<std::int64_t>(object.number("pid", kMaxPid));
      break;
    case Kind::kBeat:
      message.unix_ms = static_cast<std::int64_t>(object.number("unix_ms", kMostMilliseconds));
      message.shm_free = object.number("shm_free", kAny);
      message.pids = read_pids(object);
      message.stopped = object.number("stopped", kMaxPid);
      break;
    case Kind::kSignal:
      message.signal = static_cast<int>(object.number("signal", 64));
      break;
    case Kind::kEnded:
      message.order = object.number("order", kAny);
      message.pids = read_pids(object);
      break;
    case Kind::kWelcome:
      message.mark = object.text("mark", kMaxNameBytes);
      break;
    case Kind::kEnd:
      message.order = object.number("order", kAny);
      message.mark = object.text("mark", kMaxNameBytes);
      break;
    case Kind::kHeard:
    case Kind::kLeave:
      break;
  }
  object.finish();
  return message;
}

std::int64_t unix_ms_now() {
  using std::chrono::milliseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::max<std::int64_t>(std::chrono::duration_cast<milliseconds>(now).count(), 0);
}

}  // namespace trireme
