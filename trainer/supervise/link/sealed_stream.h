#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/supervise/link/run_token.h"

namespace trireme {

// One end of a conversation between two processes of a run (a supervisor and an agent, or two
// ranks' watchdogs), without the connection it goes over: bytes that came go in, messages come
// out. Nothing is believed that was not written by an end that has the run's token:
//   greeting   both ends first send a protocol word and 16 random bytes, the challenge
//   message    its length (4 bytes, big end first), its text, and HMAC-SHA-256 of its number on
//              this connection and its text, by a key that is made from the token, both
//              challenges and the direction
// So a message that is recorded and sent again, left out, moved, or turned back to where it came
// from breaks the conversation. What is said can be read on the way: it is no secret.
class SealedStream {
 public:
  // Of the connection: who waited for it, and who sought it.
  enum class End : std::uint8_t { kAccepts, kConnects };
  static constexpr std::size_t kChallengeBytes = 16;
  static constexpr std::size_t kMostBytes = 64 * 1024;
  // A stranger's first message.
  static constexpr std::size_t kMostHelloBytes = 1024;

  // `challenge`: 16 bytes that were never used before.
  SealedStream(End end, const RunToken& token, std::string challenge);
  // What is to be sent first.
  std::string greeting() const;

  // Takes in what came.
  void feed(std::string_view bytes);
  // The next whole message. One that is wrong or too long breaks the conversation.
  std::optional<std::string> take();
  // The other's greeting has come: messages can be sealed.
  bool is_greeted() const { return is_greeted_; }
  // The other has shown that it has the token.
  bool is_trusted() const { return received_messages_ > 0; }
  bool is_broken() const { return is_broken_; }
  void break_off();

  // The bytes of one message. Only once greeted.
  std::string sealed(std::string_view message);

 private:
  void take_greeting();
  static RunToken::Tag tag_of(const RunToken::Tag& key, std::uint64_t number,
                              std::string_view message);

  End end_;
  RunToken token_;
  std::string challenge_, received_;
  RunToken::Tag key_to_send_ = {}, key_to_receive_ = {};
  std::uint64_t sent_messages_ = 0, received_messages_ = 0;
  bool is_greeted_ = false, is_broken_ = false;
};

}  // namespace trireme
