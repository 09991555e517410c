#include "trainer/restart/watch_message.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <random>
#include <string>

#include "model/base/error.h"
#include "trainer/restart/watch_link.h"

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

std::string body_of(const WatchMessage& message) {
  return message.encoded().substr(sizeof(std::uint32_t));
}

TEST(WatchMessage, comes_back_as_it_went) {
  const WatchMessage back = WatchMessage::decoded(body_of(failure()));
  EXPECT_EQ(back.kind, Kind::kFailure);
  EXPECT_EQ(back.health, RankHealth::kFailed);
  EXPECT_EQ(back.text, "no more tokens");
  EXPECT_EQ(back.now, 77);
  EXPECT_EQ(back.page.progress.step, 120);
  EXPECT_EQ(back.page.progress.layer, 17);
  ASSERT_EQ(back.page.groups.size(), 1u);
  EXPECT_EQ(back.page.groups[0].name, "tensor");
  EXPECT_EQ(back.page.groups[0].begun, 9u);
  const WatchMessage verdict = WatchMessage::decoded(body_of(
      {.kind = Kind::kVerdict, .health = RankHealth::kLost, .ranks = {2, 3}, .text = "so"}));
  EXPECT_EQ(verdict.ranks, (std::vector{2, 3}));
  EXPECT_EQ(verdict.text, "so");
  const WatchMessage ask = WatchMessage::decoded(body_of({.kind = Kind::kAsk, .ranks = {1}}));
  EXPECT_EQ(ask.ranks, std::vector{1});
}

TEST(WatchMessage, that_is_cut_or_goes_on_is_refused) {
  const std::string body = body_of(failure());
  for (std::size_t size = 0; size < body.size(); ++size) {
    EXPECT_THROW(WatchMessage::decoded(body.substr(0, size)), Error) << size << " bytes";
  }
  EXPECT_THROW(WatchMessage::decoded(body + "x"), Error);
}

TEST(WatchMessage, of_noise_is_refused_or_harmless) {
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string noise = body_of(failure());
    for (int flips = 0; flips < 1 + i % 9; ++flips) {
      noise[random() % noise.size()] = static_cast<char>(random());
    }
    try {
      EXPECT_LE(WatchMessage::decoded(noise).encoded().size(), WatchMessage::kMostBytes);
    } catch (const Error&) {
      continue;
    }
  }
}

// Both ends of a connection over the loopback address.
class Linked : public testing::Test {
 protected:
  Linked()
      : listener_(Socket::listen(true)),
        here_(Socket::connect(loopback_address(), listener_.port())),
        there_(accepted()) {}

  Socket accepted() const {
    pollfd come{listener_.descriptor(), POLLIN, 0};
    ::poll(&come, 1, 5000);
    return listener_.accept();
  }
  // What comes at the far end within a second.
  std::optional<WatchMessage> next() {
    for (int tries = 0; tries < 100; ++tries) {
      there_.receive();
      if (auto message = there_.take()) return message;
      if (!there_.is_open()) return std::nullopt;
      pollfd come{there_.descriptor(), POLLIN, 0};
      ::poll(&come, 1, 10);
    }
    return std::nullopt;
  }
  void send_bytes(const std::string& bytes) const {
    ::send(here_.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  Socket listener_;
  WatchLink here_, there_;
};

TEST_F(Linked, messages_arrive_whole_and_in_order) {
  there_.trust();
  for (int rank = 0; rank < 100; ++rank) here_.send({.kind = Kind::kHello, .rank = rank});
  for (int rank = 0; rank < 100; ++rank) {
    const auto message = next();
    ASSERT_TRUE(message);
    EXPECT_EQ(message->rank, rank);
  }
}

TEST_F(Linked, what_was_sent_before_the_end_is_read_before_the_end_shows) {
  there_.trust();
  here_.send(failure());
  here_ = WatchLink(Socket());
  ASSERT_TRUE(next());
  EXPECT_FALSE(next());
  EXPECT_FALSE(there_.is_open());
}

TEST_F(Linked, a_stranger_may_say_no_more_than_hello) {
  here_.send(failure());
  EXPECT_FALSE(next());
  EXPECT_FALSE(there_.is_open());
}

TEST_F(Linked, a_length_beyond_all_messages_closes) {
  there_.trust();
  send_bytes(std::string(4, '\xff') + "abc");
  EXPECT_FALSE(next());
  EXPECT_FALSE(there_.is_open());
}

TEST_F(Linked, a_request_of_another_protocol_closes) {
  send_bytes("GET / HTTP/1.1\r\n\r\n");
  EXPECT_FALSE(next());
  EXPECT_FALSE(there_.is_open());
}

}  // namespace
}  // namespace trireme
