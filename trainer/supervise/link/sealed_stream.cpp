#include "trainer/supervise/link/sealed_stream.h"

#include "model/base/error.h"

namespace trireme {
namespace {

constexpr std::string_view kProtocol = "trireme1";
constexpr std::size_t kLengthBytes = 4;

template <class Number>
std::string big_endian(Number number) {
  std::string bytes(sizeof number, '\0');
  for (std::size_t i = 0; i < sizeof number; ++i) {
    bytes[sizeof number - 1 - i] = static_cast<char>(number >> (8 * i) & 0xff);
  }
  return bytes;
}

std::size_t length_at_start(std::string_view bytes) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return length;
}

}  // namespace

SealedStream::SealedStream(End end, const RunToken& token, std::string challenge)
    : end_(end), token_(token), challenge_(std::move(challenge)) {
  require(challenge_.size() == kChallengeBytes, "the challenge has ", challenge_.size(), " bytes");
}

std::string SealedStream::greeting() const {
  return std::string(kProtocol) + challenge_;
}

void SealedStream::feed(std::string_view bytes) {
  if (is_broken_) return;
  received_ += bytes;
  if (!is_greeted_) take_greeting();
}

void SealedStream::take_greeting() {
  const std::size_t there = std::min(received_.size(), kProtocol.size());
  if (received_.compare(0, there, kProtocol.substr(0, there)) != 0) return break_off();
  if (received_.size() < kProtocol.size() + kChallengeBytes) return;
  const std::string theirs = received_.substr(kProtocol.size(), kChallengeBytes);
  received_.erase(0, kProtocol.size() + kChallengeBytes);
  const bool accepts = end_ == End::kAccepts;
  const std::string both = accepts ? challenge_ + theirs : theirs + challenge_;
  const RunToken::Tag from_accepting = token_.tag("from the end that accepts" + both);
  const RunToken::Tag from_connecting = token_.tag("from the end that connects" + both);
  key_to_send_ = accepts ? from_accepting : from_connecting;
  key_to_receive_ = accepts ? from_connecting : from_accepting;
  is_greeted_ = true;
}

void SealedStream::break_off() {
  is_broken_ = true;
  received_.clear();
}

std::optional<std::string> SealedStream::take() {
  if (!is_greeted_ || is_broken_ || received_.size() < kLengthBytes) return std::nullopt;
  const std::size_t length = length_at_start(received_);
  if (length > (is_trusted() ? kMaxBytes : kMaxHelloBytes)) {
    break_off();
    return std::nullopt;
  }
  if (received_.size() < kLengthBytes + length + RunToken::kTagBytes) return std::nullopt;
  std::string message = received_.substr(kLengthBytes, length);
  const auto tag = std::string_view(received_).substr(kLengthBytes + length, RunToken::kTagBytes);
  if (!RunToken::same(tag_of(key_to_receive_, received_messages_, message), tag)) {
    break_off();
    return std::nullopt;
  }
  ++received_messages_;
  received_.erase(0, kLengthBytes + length + RunToken::kTagBytes);
  return message;
}

std::string SealedStream::sealed(std::string_view message) {
  require(is_greeted_, "a message was sent before the peer's greeting arrived");
  require(message.size() <= kMaxBytes, "a sealed message has ", message.size(), " bytes");
  const RunToken::Tag tag = tag_of(key_to_send_, sent_messages_++, message);
  return big_endian(static_cast<std::uint32_t>(message.size())) + std::string(message) +
         std::string(tag.begin(), tag.end());
}

RunToken::Tag SealedStream::tag_of(const RunToken::Tag& key, std::uint64_t number,
                                   std::string_view message) {
  return RunToken::tag_by(key, big_endian(number) + std::string(message));
}

}  // namespace trireme
