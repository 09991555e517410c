#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "model/base/error.h"
#include "trainer/supervise/link/sealed_stream.h"
#include "trainer/supervise/link/socket.h"

namespace trireme {

// A non-blocking connection between two processes of a run that carries authenticated messages
// (SealedStream).
class SealedLink {
 public:
  SealedLink(SealedStream::End end, const RunToken& token, Socket socket);

  int descriptor() const { return socket_.descriptor(); }
  // Whether more data can arrive. Messages received before the connection closed can still be
  // taken.
  bool is_open() const { return is_open_ && !stream_.is_broken(); }
  bool is_greeted() const { return stream_.is_greeted(); }
  bool is_trusted() const { return stream_.is_trusted(); }
  // Closes the link; drops unread messages.
  void close() { stream_.break_off(); }

  // Queues a message; what the socket does not accept is sent by a later flush(). Requires
  // is_greeted().
  void send(std::string_view message);
  void flush();
  bool has_unsent() const { return is_open() && !unsent_.empty(); }

  // Reads part of the available data.
  void receive();
  std::optional<std::string> take() { return stream_.take(); }

 private:
  Socket socket_;
  SealedStream stream_;
  std::string unsent_;
  bool is_open_ = true;
};

// A link for one message type. Message needs encoded(), and decoded(), which throws Error.
template <class Message>
class MessageLink : public SealedLink {
 public:
  using SealedLink::SealedLink;

  void send(const Message& message) { SealedLink::send(message.encoded()); }
  // The next message. An invalid message closes the link.
  std::optional<Message> take() {
    const std::optional<std::string> text = SealedLink::take();
    if (!text) return std::nullopt;
    try {
      return Message::decoded(*text);
    } catch (const Error&) {
      close();
      return std::nullopt;
    }
  }
};

}  // namespace trireme
