#include "trainer/supervise/watchdog/watch_message.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "model/base/error.h"
#include "trainer/supervise/link/sealed_stream.h"

namespace trireme {
namespace {

using Kind = WatchMessage::Kind;

WatchMessage failure() {
  WatchMessage message{.kind = Kind::kFailure, .now = 77, .health = RankHealth::kFailed};
  message.text = "no more tokens";
  message.page.progress.step = 120;
  message.page.progress.layer = 17;
  message.page.groups = {{.name = "tensor", .key = 5, .size = 2, .begun = 9, .finished = 8}};
  return message;
}

TEST(WatchMessage, comes_back_as_it_went) {
  const WatchMessage back = WatchMessage::decoded(failure().encoded());
  EXPECT_EQ(back.kind, Kind::kFailure);
  EXPECT_EQ(back.health, RankHealth::kFailed);
  EXPECT_EQ(back.text, "no more tokens");
  EXPECT_EQ(back.now, 77);
  EXPECT_EQ(back.page.progress.step, 120);
  EXPECT_EQ(back.page.progress.layer, 17);
  ASSERT_EQ(back.page.groups.size(), 1u);
  EXPECT_EQ(back.page.groups[0].name, "tensor");
  EXPECT_EQ(back.page.groups[0].begun, 9u);
  const WatchMessage verdict = WatchMessage::decoded(WatchMessage{
      .kind = Kind::kVerdict, .health = RankHealth::kLost, .ranks = {2, 3}, .text = "so"}
                                                         .encoded());
  EXPECT_EQ(verdict.ranks, (std::vector{2, 3}));
  EXPECT_EQ(verdict.text, "so");
  const WatchMessage ask =
      WatchMessage::decoded(WatchMessage{.kind = Kind::kAsk, .ranks = {1}}.encoded());
  EXPECT_EQ(ask.ranks, std::vector{1});
}

TEST(WatchMessage, that_is_cut_or_goes_on_is_refused) {
  const std::string body = failure().encoded();
  for (std::size_t size = 0; size < body.size(); ++size) {
    EXPECT_THROW(WatchMessage::decoded(body.substr(0, size)), Error) << size << " bytes";
  }
  EXPECT_THROW(WatchMessage::decoded(body + "x"), Error);
}

TEST(WatchMessage, of_noise_is_refused_or_harmless) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string noise = failure().encoded();
    for (int flips = 0; flips < 1 + i % 9; ++flips) {
      noise[random() % noise.size()] = static_cast<char>(random());
    }
    try {
      EXPECT_LE(WatchMessage::decoded(noise).encoded().size(), SealedStream::kMaxBytes);
    } catch (const Error&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace trireme
