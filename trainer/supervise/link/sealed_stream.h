#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/supervise/link/run_token.h"

namespace trireme {

// One end of an authenticated message stream between two processes of a run (a supervisor and an
// agent, or two ranks' watchdogs), independent of the transport: received bytes go in, messages
// come out. Only messages from an end that has the run's token are accepted:
//   greeting   each end first sends a protocol word and a challenge of 16 random bytes
//   message    length (4 bytes, big-endian), text, and HMAC-SHA-256 of the text and its number
//              on this connection, keyed by the token, both challenges and the direction
// Replayed, dropped, reordered or reflected messages therefore break the stream. Messages are
// authenticated but not encrypted.
class SealedStream {
 public:
  // Which end accepted the connection and which opened it.
  enum class End : std::uint8_t { kAccepts, kConnects };
  static constexpr std::size_t kChallengeBytes = 16;
  static constexpr std::size_t kMaxBytes = 64 * 1024;
  // Limit of the first message, from an end that is not authenticated yet.
  static constexpr std::size_t kMaxHelloBytes = 1024;

  // `challenge`: 16 random bytes, never used before.
  SealedStream(End end, const RunToken& token, std::string challenge);
  // The bytes to send first.
  std::string greeting() const;

  // Adds received bytes.
  void feed(std::string_view bytes);
  // The next complete message. An invalid or oversized message breaks the stream.
  std::optional<std::string> take();
  // Whether the peer's greeting has arrived; messages can be sealed from then on.
  bool is_greeted() const { return is_greeted_; }
  // Whether the peer has proved that it has the token.
  bool is_trusted() const { return received_messages_ > 0; }
  bool is_broken() const { return is_broken_; }
  void break_off();

  // Encodes and authenticates one message. Requires is_greeted().
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
