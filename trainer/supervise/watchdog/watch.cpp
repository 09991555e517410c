#include "trainer/supervise/watchdog/watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "parallel/comm/flight_recorder_losses.h"

namespace trireme {
namespace {

constexpr std::int64_t kShortestInterval = kSecond / 50;
constexpr std::int64_t kLongestInterval = kSecond / 4;
// Used while a rank is unhealthy.
constexpr std::int64_t kHurriedInterval = kSecond / 100;
// Time until an unauthenticated connection is closed, or the next address of a leader is tried.
constexpr std::int64_t kPatience = 4 * kSecond;
constexpr std::size_t kMostStrangers = 64;  // in addition to one per rank
constexpr int kMostAtOnce = 64;             // new connections per round

std::int64_t nanoseconds(double seconds) {
  return static_cast<std::int64_t>(seconds * static_cast<double>(kSecond));
}

}  // namespace

Watch::Watch(Setup setup)
    : setup_(std::move(setup)),
      interval_(std::clamp(nanoseconds(setup_.options.heartbeat_timeout_s / 10), kShortestInterval,
                           kLongestInterval)),
      heartbeat_(nanoseconds(setup_.options.heartbeat_timeout_s)),
      world_(setup_.hosts.size()),
      known_(setup_.hosts.size()),
      leaders_(setup_.leaders.size()),
      wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  if (wake_ < 0)
    throw EnvironmentError("cannot create an eventfd for the watchdog: no file descriptors left");
  for (std::size_t r = 0; r < world_.size(); ++r) {
    world_[r].host = setup_.hosts[r];
    // Counts idle time from now, not from the boot of the machine.
    known_[r].page_received = flight_recorder_now();
  }
}

Watch::~Watch() {
  ::close(wake_);
}

void Watch::run() {
  std::int64_t next_beat = flight_recorder_now();
  std::int64_t last = next_beat;
  for (;;) {
    connect_to_leaders();
    sleep_until(suspicious_since_ == 0 ? next_beat : std::min(next_beat, last + kHurriedInterval));
    const std::int64_t now = flight_recorder_now();
    // Time during which this process was stopped or had no core does not count as silence of the
    // peers.
    if (const std::int64_t slept = now - last; slept > heartbeat_ / 2) {
      for (Peer& peer : peers_) peer.heard += slept;
    }
    last = round_ = now;
    exchange();
    take_requests();
    if (now >= next_beat) {
      beat();
      next_beat = now + interval_;
    }
    look(now);
    const std::lock_guard lock(mutex_);
    if (leave_requested_) break;
  }
  send_to_all({.kind = Kind::kGoodbye});
  flush_for(0.5);
}

void Watch::sleep_until(std::int64_t time) {
  std::vector<pollfd> awaited{{wake_, POLLIN, 0}};
  if (setup_.listener.is_open()) awaited.push_back({setup_.listener.descriptor(), POLLIN, 0});
  for (const Peer& peer : peers_) {
    const bool writes = peer.link.has_unsent();
    awaited.push_back(
        {peer.link.descriptor(), static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), 0});
  }
  const std::int64_t left = std::max<std::int64_t>(time - flight_recorder_now(), 0);
  ::poll(awaited.data(), awaited.size(), static_cast<int>(left / 1'000'000 + 1));
  std::uint64_t woken = 0;
  if (::read(wake_, &woken, sizeof woken) < 0) return;  // not woken
}

void Watch::connect_to_leaders() {
  for (std::size_t leader = 0; leader < setup_.leaders.size(); ++leader) {
    const int rank = static_cast<int>(leader);
    LeaderLink& link = leaders_[leader];
    const bool is_under_way = std::any_of(peers_.begin(), peers_.end(), [rank](const Peer& peer) {
      return peer.is_leader && peer.rank == rank;
    });
    if (rank == setup_.rank || link.answered || is_under_way) continue;
    const Place& place = setup_.leaders[leader];
    Socket socket =
        Socket::connect(place.addresses[link.tries++ % place.addresses.size()], place.port);
    if (!socket.is_open()) continue;
    Peer& peer = peers_.emplace_back(SealedStream::End::kConnects, setup_.token, std::move(socket));
    peer.rank = rank;
    peer.is_leader = true;
    peer.since = flight_recorder_now();
  }
}

// If unauthenticated connections fill the port, the oldest is dropped: a rank authenticates at
// once.
void Watch::accept() {
  const auto is_stranger = [](const Peer& peer) { return !peer.is_known && !peer.is_leader; };
  for (int come = 0; setup_.listener.is_open() && come < kMostAtOnce; ++come) {
    Socket socket = setup_.listener.accept();
    if (!socket.is_open()) return;
    peers_.emplace_back(SealedStream::End::kAccepts, setup_.token, std::move(socket)).since =
        flight_recorder_now();
    const auto strangers = std::count_if(peers_.begin(), peers_.end(), is_stranger);
    if (static_cast<std::size_t>(strangers) > kMostStrangers + world_.size()) {
      peers_.erase(std::find_if(peers_.begin(), peers_.end(), is_stranger));
    }
  }
}

void Watch::exchange() {
  accept();
  for (Peer& peer : peers_) {
    peer.link.flush();
    receive_from(peer);
  }
  peers_.remove_if([](const Peer& peer) {
    const bool is_late = !peer.is_known && flight_recorder_now() - peer.since > kPatience;
    return is_late || !peer.link.is_open();
  });
}

void Watch::receive_from(Peer& peer) {
  peer.link.receive();
  if (peer.is_leader && peer.link.is_greeted() && !peer.has_greeted) say_hello(peer);
  while (const auto message = peer.link.take()) {
    peer.heard = flight_recorder_now();
    if (!peer.is_known) {
      on_hello(peer, *message);
    } else {
      on_message(peer, *message);
    }
  }
  if (!peer.link.is_open()) on_closed(peer);
}

void Watch::say_hello(Peer& peer) {
  peer.has_greeted = true;
  peer.link.send({.kind = Kind::kHello, .rank = setup_.rank, .pid = ::getpid()});
}

// A connection is established once both ends have sent a hello, the connecting end first.
void Watch::on_hello(Peer& peer, const WatchMessage& message) {
  const bool is_ours = message.kind == Kind::kHello && message.rank >= 0 &&
                       message.rank < static_cast<int>(world_.size()) &&
                       (!peer.is_leader || message.rank == peer.rank);
  if (!is_ours) return peer.link.close();
  peer.is_known = true;
  peer.rank = message.rank;
  known_[static_cast<std::size_t>(message.rank)].pid = message.pid;
  if (!peer.is_leader) return say_hello(peer);
  leaders_[static_cast<std::size_t>(peer.rank)].answered = true;
  const std::lock_guard lock(mutex_);
  ++answered_;
  changed_.notify_all();
}

void Watch::on_message(Peer& peer, const WatchMessage& message) {
  RankReport& theirs = report(peer.rank);
  PeerState& known = known_[static_cast<std::size_t>(peer.rank)];
  if (theirs.health == RankHealth::kSilent) theirs.health = RankHealth::kWell;
  switch (message.kind) {
    case Kind::kFailure:
      theirs.bad_since = round_;
      theirs.health =
          message.health == RankHealth::kPeerFailed ? RankHealth::kPeerFailed : RankHealth::kFailed;
      theirs.words = message.text;
      [[fallthrough]];
    case Kind::kBeat:
      theirs.page = message.page;
      known.page_now = message.now;
      known.page_received = flight_recorder_now();
      break;
    case Kind::kAsk:
      on_lost_elsewhere(message);
      peer.link.send(own_beat(Kind::kBeat));
      break;
    case Kind::kVerdict:
      if (setup_.rank < kLeaders) send_to_all(message);
      flush_for(0.02);
      // Clocks of the nodes differ, so the wait is bounded.
      end_process(std::min(message.now, flight_recorder_now() + kSecond / 4));
    case Kind::kGoodbye:
      peer.has_left = true;
      break;
    case Kind::kHello:
      break;
  }
}

void Watch::on_closed(const Peer& peer) {
  if (!peer.is_known) return;
  if (!is_armed_) {  // dropped in favor of another connection
    if (!peer.is_leader) return;
    leaders_[static_cast<std::size_t>(peer.rank)].answered = false;
    const std::lock_guard lock(mutex_);
    --answered_;
    return;
  }
  RankReport& theirs = report(peer.rank);
  if (peer.has_left && theirs.health <= RankHealth::kLeft) {
    theirs.health = RankHealth::kLeft;
  } else if (theirs.health != RankHealth::kFailed && theirs.health != RankHealth::kPeerFailed) {
    on_lost(peer.rank);
  }
}

void Watch::on_lost(int rank) {
  RankReport& theirs = report(rank);
  if (theirs.health == RankHealth::kLost) return;
  theirs.health = RankHealth::kLost;
  theirs.bad_since = round_;
  const std::filesystem::path own_file = setup_.recorder.file();
  if (!own_file.empty()) note_loss(own_file, {.at = round_, .rank = rank});
}

// Handles lost ranks to which this rank has no connection.
void Watch::on_lost_elsewhere(const WatchMessage& message) {
  for (const int rank : message.ranks) {
    const auto is_theirs = [rank](const Peer& peer) { return peer.rank == rank; };
    if (rank < 0 || rank >= static_cast<int>(world_.size()) || rank == setup_.rank) continue;
    if (report(rank).health != RankHealth::kWell) continue;
    if (std::none_of(peers_.begin(), peers_.end(), is_theirs)) on_lost(rank);
  }
}

void Watch::take_requests() {
  const std::lock_guard lock(mutex_);
  if (own_failure_ || !requested_failure_) return;
  own_failure_ = requested_failure_;
  report(setup_.rank).health = own_failure_->health;
  report(setup_.rank).words = own_failure_->words;
  report(setup_.rank).bad_since = round_;
  known_[static_cast<std::size_t>(setup_.rank)].page_received = flight_recorder_now();
  send_to_all(own_beat(Kind::kFailure));
}

void Watch::beat() {
  send_to_all(own_beat(Kind::kBeat));
}

WatchMessage Watch::own_beat(Kind kind) const {
  return {.kind = kind,
          .now = flight_recorder_now(),
          .page = setup_.recorder.page(),
          .health = report(setup_.rank).health,
          .text = report(setup_.rank).words};
}

void Watch::send_to_all(const WatchMessage& message) {
  for (Peer& peer : peers_) {
    if (peer.is_known) peer.link.send(message);
  }
}

void Watch::flush_for(double seconds) {
  const std::int64_t end = flight_recorder_now() + nanoseconds(seconds);
  const auto is_unsent = [](const Peer& peer) { return peer.link.has_unsent(); };
  while (std::any_of(peers_.begin(), peers_.end(), is_unsent) && flight_recorder_now() < end) {
    ::usleep(1000);
    for (Peer& peer : peers_) peer.link.flush();
  }
}

void Watch::wake() const {
  const std::uint64_t one = 1;
  if (::write(wake_, &one, sizeof one) < 0) return;  // the thread is awake already
}

bool Watch::wait_until_connected(double seconds) {
  const int others = static_cast<int>(setup_.leaders.size()) - (setup_.rank < kLeaders ? 1 : 0);
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                           [&] { return answered_ >= others; });
}

void Watch::arm() {
  is_armed_ = true;
}

void Watch::leave() {
  const std::lock_guard lock(mutex_);
  leave_requested_ = true;
  wake();
}

void Watch::fail(RankHealth health, const std::string& words, ExitCode code) {
  std::fflush(nullptr);
  std::unique_lock lock(mutex_);
  requested_failure_ = Failure{health, words, code};
  wake();
  for (;;) changed_.wait(lock);  // until the watchdog thread exits the process
}

}  // namespace trireme
