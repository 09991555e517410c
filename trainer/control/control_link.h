#pragma once
#include <optional>
#include <string>

#include "trainer/control/control_message.h"
#include "trainer/control/sealed_stream.h"
#include "trainer/restart/socket.h"

namespace trireme {

// A connection between a supervisor and an agent, over which whole messages go that the other
// end has sealed (SealedStream). Nothing blocks.
class ControlLink {
 public:
  ControlLink(SealedStream::End end, const RunToken& token, Socket socket);

  int descriptor() const { return socket_.descriptor(); }
  // Whether more may come; what came before the end can be taken.
  bool is_open() const { return is_open_ && !stream_.is_broken(); }
  bool is_greeted() const { return stream_.is_greeted(); }
  bool is_trusted() const { return stream_.is_trusted(); }

  // What finds no room leaves with a later flush(). Only once greeted.
  void send(const ControlMessage& message);
  void flush();
  bool has_unsent() const { return is_open() && !unsent_.empty(); }

  // Reads some of what is there.
  void receive();
  // The next message; one that is none closes the link.
  std::optional<ControlMessage> take();

 private:
  Socket socket_;
  SealedStream stream_;
  std::string unsent_;
  bool is_open_ = true;
};

}  // namespace trireme
