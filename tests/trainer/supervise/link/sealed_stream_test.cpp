#include "trainer/supervise/link/sealed_stream.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "model/base/error.h"

namespace trireme {
namespace {

using End = SealedStream::End;

RunToken token_of(unsigned char first) {
  return RunToken({first, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
}

// Both ends of a conversation, greeted.
struct Pair {
  explicit Pair(unsigned char agents_token = 1, const std::string& challenge = "its own sixteen.")
      : supervisor(End::kAccepts, token_of(1), challenge),
        agent(End::kConnects, token_of(agents_token), "another sixteen.") {
    supervisor.feed(agent.greeting());
    agent.feed(supervisor.greeting());
  }
  SealedStream supervisor, agent;
};

TEST(SealedStream, messages_come_as_they_went_in_both_directions) {
  Pair pair;
  EXPECT_FALSE(pair.supervisor.is_trusted());
  const std::string long_text(SealedStream::kMaxBytes, 'x');
  pair.supervisor.feed(pair.agent.sealed("hello"));
  pair.supervisor.feed(pair.agent.sealed(long_text));
  EXPECT_EQ(pair.supervisor.take(), "hello");
  EXPECT_TRUE(pair.supervisor.is_trusted());
  EXPECT_EQ(pair.supervisor.take(), long_text);
  EXPECT_EQ(pair.supervisor.take(), std::nullopt);
  pair.agent.feed(pair.supervisor.sealed(""));
  EXPECT_EQ(pair.agent.take(), "");
}

TEST(SealedStream, pieces_of_any_size_do) {
  SealedStream agent(End::kConnects, token_of(1), "another sixteen.");
  SealedStream supervisor(End::kAccepts, token_of(1), "its own sixteen.");
  agent.feed(supervisor.greeting());
  std::string sent = agent.greeting(), came;
  sent += agent.sealed("one");
  sent += agent.sealed("two");
  for (const char byte : sent) {
    supervisor.feed({&byte, 1});
    while (const auto message = supervisor.take()) came += *message + ";";
  }
  EXPECT_EQ(came, "one;two;");
}

TEST(SealedStream, another_token_is_not_believed) {
  Pair pair(7);
  pair.supervisor.feed(pair.agent.sealed("hello"));
  EXPECT_EQ(pair.supervisor.take(), std::nullopt);
  EXPECT_TRUE(pair.supervisor.is_broken());
  EXPECT_FALSE(pair.supervisor.is_trusted());
}

TEST(SealedStream, a_changed_bit_anywhere_breaks_it) {
  const std::size_t size = Pair().agent.sealed("hello").size();
  for (std::size_t bit = 0; bit < 8 * size; ++bit) {
    Pair pair;
    std::string bytes = pair.agent.sealed("hello");
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ 1 << bit % 8);
    // A length that grew waits for more: whatever that is, it does not fit.
    pair.supervisor.feed(bytes + std::string(SealedStream::kMaxBytes, '\0'));
    EXPECT_EQ(pair.supervisor.take(), std::nullopt) << "bit " << bit;
    EXPECT_TRUE(pair.supervisor.is_broken()) << "bit " << bit;
  }
}

TEST(SealedStream, a_message_counts_once_in_its_place_and_conversation) {
  Pair pair;
  const std::string first = pair.agent.sealed("end n1"), second = pair.agent.sealed("end n2");
  pair.supervisor.feed(first + first);
  EXPECT_EQ(pair.supervisor.take(), "end n1");
  EXPECT_EQ(pair.supervisor.take(), std::nullopt);
  EXPECT_TRUE(pair.supervisor.is_broken());
  Pair left_out;
  left_out.supervisor.feed(second);
  EXPECT_EQ(left_out.supervisor.take(), std::nullopt);
  Pair later(1, "sixteen of today");
  later.supervisor.feed(first);
  EXPECT_EQ(later.supervisor.take(), std::nullopt);
}

TEST(SealedStream, what_is_turned_back_is_not_believed) {
  Pair pair;
  pair.supervisor.feed(pair.supervisor.sealed("end"));
  EXPECT_EQ(pair.supervisor.take(), std::nullopt);
  EXPECT_TRUE(pair.supervisor.is_broken());
}

TEST(SealedStream, a_stranger_may_say_little) {
  Pair pair;
  pair.supervisor.feed(pair.agent.sealed(std::string(SealedStream::kMaxHelloBytes + 1, 'x')));
  EXPECT_EQ(pair.supervisor.take(), std::nullopt);
  EXPECT_TRUE(pair.supervisor.is_broken());
}

TEST(SealedStream, another_protocol_breaks_it_at_its_first_byte) {
  SealedStream supervisor(End::kAccepts, token_of(1), "its own sixteen.");
  supervisor.feed("GET / HTTP/1.1\r\n");
  EXPECT_TRUE(supervisor.is_broken());
}

TEST(SealedStream, what_is_too_long_is_never_sent) {
  Pair pair;
  EXPECT_THROW(pair.agent.sealed(std::string(SealedStream::kMaxBytes + 1, 'x')), Error);
}

}  // namespace
}  // namespace trireme
