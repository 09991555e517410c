#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "model/base/error.h"
#include "trainer/supervise/link/sealed_stream.h"
#include "trainer/supervise/node_agent/control_message.h"

namespace {

using trireme::ControlMessage;
using trireme::SealedStream;

constexpr std::array<unsigned char, trireme::RunToken::kBytes> kToken{1, 2, 3};

// Whoever has not the token is never believed, whatever the pieces it sends.
void be_a_stranger(const std::uint8_t* data, std::size_t size) {
  SealedStream supervisor(SealedStream::End::kAccepts, trireme::RunToken(kToken),
                          "its own sixteen.");
  if (size > 0 && data[0] % 2 == 0) supervisor.feed("trireme1sixteen of theirs");
  for (std::size_t at = 1; at < size;) {
    const std::size_t piece = std::min<std::size_t>(1 + data[at], size - at);
    supervisor.feed({reinterpret_cast<const char*>(data + at), piece});
    if (supervisor.take() || supervisor.is_trusted()) std::abort();
    at += piece;
  }
}

// A message by one who has is understood, and then means the same when said again, or refused.
void be_an_agent(const std::string& text) {
  SealedStream supervisor(SealedStream::End::kAccepts, trireme::RunToken(kToken),
                          "its own sixteen.");
  SealedStream agent(SealedStream::End::kConnects, trireme::RunToken(kToken), "another sixteen.");
  supervisor.feed(agent.greeting());
  agent.feed(supervisor.greeting());
  supervisor.feed(agent.sealed("{}"));
  if (!supervisor.take()) std::abort();
  supervisor.feed(agent.sealed(text));
  const auto came = supervisor.take();
  if (!came || *came != text) std::abort();
  try {
    const std::string said = ControlMessage::decoded(*came).encoded();
    if (ControlMessage::decoded(said).encoded() != said) std::abort();
  } catch (const trireme::Error& error) {
    if (std::string(error.what()).empty()) std::abort();
  }
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  be_a_stranger(data, size);
  be_an_agent(
      std::string(reinterpret_cast<const char*>(data), std::min(size, SealedStream::kMaxBytes)));
  return 0;
}
