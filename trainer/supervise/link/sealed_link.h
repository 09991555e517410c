#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "model/base/error.h"
#include "trainer/supervise/link/sealed_stream.h"
#include "trainer/supervise/link/socket.h"

namespace trireme {

// A connection between two processes of a run, over which whole messages go that the other end
// has sealed (SealedStream). Nothing blocks.
class SealedLink {
 public:
  SealedLink(SealedStream::End end, const RunToken& token, Socket socket);

  int descriptor() const { return socket_.descriptor(); }
  // Whether more may come; what came before the end can be taken.
  bool is_open() const { return is_open_ && !stream_.is_broken(); }
  bool is_greeted() const { return stream_.is_greeted(); }
  bool is_trusted() const { return stream_.is_trusted(); }
  // Nothing more is taken.
  void close() { stream_.break_off(); }

  // What finds no room leaves with a later flush(). Only once greeted.
  void send(std::string_view message);
  void flush();
  bool has_unsent() const { return is_open() && !unsent_.empty(); }

  // Reads some of what is there.
  void receive();
  std::optional<std::string> take() { return stream_.take(); }

 private:
  Socket socket_;
  SealedStream stream_;
  std::string unsent_;
  bool is_open_ = true;
};

// For messages of one kind: Message has encoded(), and decoded(), which throws Error.
template <class Message>
class MessageLink : public SealedLink {
 public:
  using SealedLink::SealedLink;

  void send(const Message& message) { SealedLink::send(message.encoded()); }
  // The next message; one that is none closes the link.
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
