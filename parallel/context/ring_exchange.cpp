#include "parallel/context/ring_exchange.h"

#include <numeric>

namespace trireme {
namespace {

// A send may wait for its receiver, so of the ranks on a circle of sends some receive first: those
// at odd places, counted from the circle's lowest rank, which is below the number of circles.
bool sends_first(int rank, int to, int ranks) {
  const int step = (to - rank + ranks) % ranks, circles = std::gcd(step, ranks);
  int place = 0;
  for (int at = rank % circles; at != rank; at = (at + step) % ranks) ++place;
  return place % 2 == 0;
}

}  // namespace

void RingExchange::start(Communicator& ranks, Stream& stream, const Messages& messages) {
  const auto send = [&] {
    if (messages.sent) sent_ = ranks.start_send(stream, messages.sent, messages.to);
  };
  const auto receive = [&] {
    if (messages.received)
      received_ = ranks.start_receive(stream, messages.received, messages.from);
  };
  if (sends_first(ranks.rank(), messages.to, ranks.size())) {
    send();
    receive();
  } else {
    receive();
    send();
  }
}

void RingExchange::wait() {
  received_.wait();
  sent_.wait();
}

}  // namespace trireme
