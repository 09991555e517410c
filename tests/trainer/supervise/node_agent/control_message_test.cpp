#include "trainer/supervise/node_agent/control_message.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/base/error.h"
#include "trainer/supervise/link/sealed_stream.h"

namespace trireme {
namespace {

using Kind = ControlMessage::Kind;

std::vector<ControlMessage> one_of_each() {
  return {{.kind = Kind::kHello, .node = "n1", .pid = 4711},
          {.kind = Kind::kBeat,
           .unix_ms = 1'790'000'000'123,
           .shm_free = 1ull << 40,
           .stopped = 1,
           .pids = {7}},
          {.kind = Kind::kSignal, .signal = 15},
          {.kind = Kind::kEnded, .order = 3, .pids = {8, 9}},
          {.kind = Kind::kWelcome, .mark = "TRIREME_RUN=1"},
          {.kind = Kind::kHeard},
          {.kind = Kind::kEnd, .mark = "TRIREME_RUN=1", .order = ~0ull},
          {.kind = Kind::kLeave}};
}

TEST(ControlMessage, comes_back_as_it_went) {
  for (const ControlMessage& message : one_of_each()) {
    const ControlMessage back = ControlMessage::decoded(message.encoded());
    EXPECT_EQ(back.kind, message.kind);
    EXPECT_EQ(back.node, message.node);
    EXPECT_EQ(back.mark, message.mark);
    EXPECT_EQ(back.pid, message.pid);
    EXPECT_EQ(back.unix_ms, message.unix_ms);
    EXPECT_EQ(back.shm_free, message.shm_free);
    EXPECT_EQ(back.order, message.order);
    EXPECT_EQ(back.signal, message.signal);
    EXPECT_EQ(back.pids, message.pids);
    EXPECT_EQ(back.stopped, message.stopped);
  }
}

TEST(ControlMessage, that_is_cut_is_refused) {
  for (const ControlMessage& message : one_of_each()) {
    const std::string text = message.encoded();
    for (std::size_t size = 0; size < text.size(); ++size) {
      EXPECT_THROW(ControlMessage::decoded(text.substr(0, size)), Error) << text;
    }
  }
}

TEST(ControlMessage, of_another_form_is_refused) {
  for (const char* text :
       {"", "[]", "null", "{}", R"({"kind":"unheard-of"})", R"({"kind":7})",
        R"({"kind":"heard","more":1})", R"({"kind":"heard","kind":"heard"})",
        R"({"kind":"beat","unix_ms":-1,"shm_free":0,"stopped":0,"pids":[]})",
        R"({"kind":"beat","unix_ms":1,"shm_free":0,"stopped":0,"pids":[-1]})",
        R"({"kind":"beat","unix_ms":1,"shm_free":0,"stopped":0,"pids":["1"]})",
        R"({"kind":"ended","order":1.5,"pids":[]})", R"({"kind":"signal","signal":99999})"}) {
    EXPECT_THROW(ControlMessage::decoded(text), Error) << text;
  }
}

TEST(ControlMessage, fits_a_frame_whatever_it_says) {
  const ControlMessage beat{.kind = Kind::kBeat,
                            .pids = std::vector<std::int64_t>(100'000, 1 << 22)};
  EXPECT_LE(beat.encoded().size(), SealedStream::kMaxBytes);
  EXPECT_EQ(ControlMessage::decoded(beat.encoded()).pids.size(), ControlMessage::kMaxPids);
}

}  // namespace
}  // namespace trireme
