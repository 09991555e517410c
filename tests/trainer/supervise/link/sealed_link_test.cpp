#include "trainer/supervise/link/sealed_link.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <charconv>
#include <string>

namespace trireme {
namespace {

// A number, as text.
struct Count {
  int value = 0;
  std::string encoded() const { return std::to_string(value); }
  static Count decoded(std::string_view text) {
    Count count;
    const auto [end, bad] = std::from_chars(text.data(), text.data() + text.size(), count.value);
    require(bad == std::errc() && end == text.data() + text.size(), "no number");
    return count;
  }
};
using Link = MessageLink<Count>;
using End = SealedStream::End;

constexpr std::array<unsigned char, RunToken::kBytes> kToken{1, 2, 3}, kOther{1, 2, 4};

// Both ends of a connection over the loopback address.
struct Linked {
  explicit Linked(const RunToken& token = RunToken(kToken))
      : listener(Socket::listen(loopback_address())),
        here(End::kConnects, token, Socket::connect(loopback_address(), listener.port())),
        there(End::kAccepts, RunToken(kToken), accepted()) {}

  Socket accepted() const {
    pollfd come{listener.descriptor(), POLLIN, 0};
    ::poll(&come, 1, 5000);
    return listener.accept();
  }
  // Until both can seal.
  void greet() {
    for (int tries = 0; tries < 500 && !(here.is_greeted() && there.is_greeted()); ++tries) {
      exchange(here);
      exchange(there);
    }
  }
  static void exchange(Link& link) {
    link.flush();
    pollfd come{link.descriptor(), POLLIN, 0};
    ::poll(&come, 1, 10);
    link.receive();
  }
  // What comes at the far end.
  std::optional<Count> next() {
    for (int tries = 0; tries < 500; ++tries) {
      exchange(there);
      if (auto message = there.take()) return message;
      if (!there.is_open()) return std::nullopt;
    }
    return std::nullopt;
  }
  void send_bytes(const std::string& bytes) const {
    ::send(here.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  Socket listener;
  Link here, there;
};

TEST(SealedLink, messages_arrive_whole_and_in_order) {
  Linked linked;
  linked.greet();
  for (int value = 0; value < 100; ++value) linked.here.send({value});
  for (int value = 0; value < 100; ++value) {
    const auto message = linked.next();
    ASSERT_TRUE(message);
    EXPECT_EQ(message->value, value);
  }
  EXPECT_TRUE(linked.there.is_trusted());
}

TEST(SealedLink, what_was_sent_before_the_end_is_read_before_the_end_shows) {
  Linked linked;
  linked.greet();
  linked.here.send({7});
  linked.here = Link(End::kConnects, RunToken(kToken), Socket());
  ASSERT_TRUE(linked.next());
  EXPECT_FALSE(linked.next());
  EXPECT_FALSE(linked.there.is_open());
}

TEST(SealedLink, one_with_another_token_is_not_believed) {
  Linked linked{RunToken(kOther)};
  linked.greet();
  linked.here.send({7});
  EXPECT_FALSE(linked.next());
  EXPECT_FALSE(linked.there.is_open());
  EXPECT_FALSE(linked.there.is_trusted());
}

TEST(SealedLink, a_message_that_is_none_closes_it_for_what_follows_too) {
  Linked linked;
  linked.greet();
  static_cast<SealedLink&>(linked.here).send("seven");
  linked.here.send({8});
  EXPECT_FALSE(linked.next());
  EXPECT_FALSE(linked.there.is_open());
  EXPECT_FALSE(linked.there.take());
}

TEST(SealedLink, a_request_of_another_protocol_closes) {
  Linked linked;
  linked.send_bytes("GET / HTTP/1.1\r\n\r\n");
  EXPECT_FALSE(linked.next());
  EXPECT_FALSE(linked.there.is_open());
}

}  // namespace
}  // namespace trireme
