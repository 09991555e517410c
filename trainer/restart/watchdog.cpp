#include "trainer/restart/watchdog.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <numeric>
#include <span>

#include "model/base/log.h"
#include "model/tensor/host_tensor.h"

namespace trireme {
namespace {

constexpr double kConnectSeconds = 20;
constexpr std::size_t kMostAddresses = 8;

// As it goes from a leader to all: token, port, how many addresses, these.
using Card = std::array<std::int32_t, 8 + 2 + kMostAddresses>;

Card make_card(const Socket& listener, const std::vector<std::uint32_t>& addresses) {
  Card card{};
  if (::getrandom(card.data(), sizeof(WatchMessage::Token), 0) < 0) {
    throw EnvironmentError("the system has no random numbers for the watchdog");
  }
  card[8] = listener.port();
  card[9] = static_cast<std::int32_t>(std::min(addresses.size(), kMostAddresses));
  std::copy_n(addresses.begin(), card[9], card.begin() + 10);
  return card;
}

Watch::Place place_on(const Card& card) {
  return {static_cast<std::uint16_t>(card[8]), {card.begin() + 10, card.begin() + 10 + card[9]}};
}

// Signals are for the rank's own thread.
std::thread start_without_signals(Watch& watch) {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread thread([&watch] { watch.run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread;
}

}  // namespace

Watchdog::Watchdog(World& world, const WatchOptions& options) {
  std::vector<int> everybody(static_cast<std::size_t>(world.size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  const auto group = world.split("watchdog", everybody);
  Stream stream;
  const std::vector<std::string>& hosts = world.hosts();
  const bool on_one_host =
      std::all_of(hosts.begin(), hosts.end(), [&](const auto& h) { return h == hosts.front(); });
  Socket listener;
  Card own{};
  if (world.rank() < Watch::kLeaders) {
    listener = Socket::listen(on_one_host);
    own = make_card(listener, on_one_host ? std::vector{loopback_address()} : own_addresses());
  }
  WatchMessage::Token token{};
  std::vector<Watch::Place> leaders;
  for (int leader = 0; leader < std::min(Watch::kLeaders, world.size()); ++leader) {
    Card card = own;
    group->broadcast(stream, host_tensor(std::span(card)), leader);
    if (leader == 0) std::copy_n(card.begin(), token.size(), token.begin());
    leaders.push_back(place_on(card));
  }
  const bool has_places = std::all_of(leaders.begin(), leaders.end(),
                                      [](const auto& place) { return !place.addresses.empty(); });
  bool is_connected = false;
  if (has_places) {
    watch_.emplace(Watch::Setup{.rank = world.rank(),
                                .hosts = hosts,
                                .ledger = world.ledger(),
                                .token = token,
                                .leaders = leaders,
                                .listener = std::move(listener),
                                .options = options});
    thread_ = start_without_signals(*watch_);
    is_connected = watch_->wait_until_connected(kConnectSeconds);
  }
  std::array<std::int32_t, 1> unconnected{is_connected ? 0 : 1};
  group->all_reduce(stream, host_tensor(std::span(unconnected)), Reduce::kMax);
  if (unconnected[0] == 0) {
    watch_->arm();
    return;
  }
  stop();
  if (world.rank() == 0) {
    log_warning(
        "no watchdog: not every rank can connect to ranks 0 and 1 over TCP (IPv4), so one "
        "that hangs will not be noticed");
  }
}

Watchdog::~Watchdog() {
  stop();
}

void Watchdog::stop() {
  if (!thread_.joinable()) return;
  watch_->leave();
  thread_.join();
}

}  // namespace trireme
