#include "trainer/supervise/node_agent/control_message.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "model/base/json.h"

namespace trireme {
namespace {

// In the order of Kind.
constexpr std::array<const char*, 8> kNames{"hello",   "beat",  "signal", "ended",
                                            "welcome", "heard", "end",    "leave"};
constexpr std::uint64_t kMaxPid = 1u << 30;

}  // namespace

inline std::string json_form(ControlMessage::Kind kind) {
  return kNames[static_cast<std::size_t>(kind)];
}
inline const char* set_json_form(ControlMessage::Kind& kind, const std::string& name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return "a kind of message is";
  kind = static_cast<ControlMessage::Kind>(found - kNames.begin());
  return nullptr;
}

void json_fields(auto& f, ControlMessage& message) {
  using Kind = ControlMessage::Kind;
  const auto pids = [&] {
    f("pids", message.pids, {.most = kMaxPid});
    f.check("pids", message.pids.size() <= ControlMessage::kMaxPids, "too many");
  };
  f("kind", message.kind);
  switch (message.kind) {
    case Kind::kHello:
      f("node", message.node, {.most = ControlMessage::kMaxNameBytes});
      return f("pid", message.pid, {.most = kMaxPid});
    case Kind::kBeat:
      f("unix_ms", message.unix_ms, {.most = kMostJsonNumber});
      f("shm_free", message.shm_free);
      f("stopped", message.stopped, {.most = kMaxPid});
      return pids();
    case Kind::kSignal:
      return f("signal", message.signal, {.most = 64});
    case Kind::kEnded:
      f("order", message.order);
      return pids();
    case Kind::kWelcome:
      return f("mark", message.mark, {.most = ControlMessage::kMaxNameBytes});
    case Kind::kEnd:
      f("order", message.order);
      return f("mark", message.mark, {.most = ControlMessage::kMaxNameBytes});
    case Kind::kHeard:
    case Kind::kLeave:
      return;
  }
}

std::string ControlMessage::encoded() const {
  ControlMessage message = *this;
  message.pids.resize(std::min(pids.size(), kMaxPids));
  return json_text(message);
}

ControlMessage ControlMessage::decoded(std::string_view text) {
  return read_json<ControlMessage>(text, "control message");
}

std::int64_t unix_ms_now() {
  using std::chrono::milliseconds;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::max<std::int64_t>(std::chrono::duration_cast<milliseconds>(now).count(), 0);
}

}  // namespace trireme
