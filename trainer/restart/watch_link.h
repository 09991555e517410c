#pragma once
#include <optional>
#include <string>

#include "trainer/restart/socket.h"
#include "trainer/restart/watch_message.h"

namespace trireme {

// A connection between two watchdogs, over which whole messages go. Nothing blocks.
class WatchLink {
 public:
  explicit WatchLink(Socket socket) : socket_(std::move(socket)) {}

  int descriptor() const { return socket_.descriptor(); }
  // Whether the other end may still send; what it sent before it went can be taken.
  bool is_open() const { return is_open_; }
  // The other end has shown the token: it may send messages of any kind.
  void trust() { is_trusted_ = true; }
  bool is_trusted() const { return is_trusted_; }

  // What finds no room leaves with a later flush().
  void send(const WatchMessage& message);
  void flush();
  bool has_unsent() const { return is_open_ && !unsent_.empty(); }

  // Reads what is there.
  void receive();
  // The next whole message. One that is malformed or too long closes the link.
  std::optional<WatchMessage> take();

 private:
  Socket socket_;
  std::string received_, unsent_;
  bool is_open_ = true;
  bool is_trusted_ = false;
};

}  // namespace trireme
