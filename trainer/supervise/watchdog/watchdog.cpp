#include "trainer/supervise/watchdog/watchdog.h"

#include <algorithm>
#include <array>
#include <bit>
#include <csignal>
#include <iterator>
#include <numeric>
#include <span>

#include "model/base/log.h"
#include "model/tensor/host_tensor.h"
#include "trainer/supervise/link/network.h"

namespace trireme {
namespace {

constexpr double kConnectSeconds = 20;
constexpr std::size_t kMostAddresses = 8;

// Address and token of a leader, broadcast to all ranks.
struct LeaderCard {
  std::array<unsigned char, RunToken::kBytes> token = {};
  std::uint32_t port = 0, addresses_count = 0;
  std::array<std::uint32_t, kMostAddresses> addresses = {};
};
constexpr std::size_t kCardWords = sizeof(LeaderCard) / sizeof(std::int32_t);
using CardWords = std::array<std::int32_t, kCardWords>;

// Addresses on the network that connects the ranks' hosts; if the host names do not resolve, all
// local addresses.
std::vector<std::uint32_t> addresses_for(const std::vector<std::string>& hosts) {
  const bool on_one_host =
      std::all_of(hosts.begin(), hosts.end(), [&](const auto& h) { return h == hosts.front(); });
  if (on_one_host) return {loopback_address()};
  const std::uint32_t address = own_address_towards(hosts);
  return address == loopback_address() ? own_addresses() : std::vector{address};
}

LeaderCard make_card(const Socket& listener, const std::vector<std::uint32_t>& addresses) {
  LeaderCard card;
  const std::string token = random_bytes(card.token.size());
  std::copy(token.begin(), token.end(), card.token.begin());
  card.port = listener.port();
  card.addresses_count = static_cast<std::uint32_t>(std::min(addresses.size(), kMostAddresses));
  std::copy_n(addresses.begin(), card.addresses_count, card.addresses.begin());
  return card;
}

Watch::Place place_on(const LeaderCard& card) {
  const auto* const first = card.addresses.begin();
  return {static_cast<std::uint16_t>(card.port), {first, first + card.addresses_count}};
}

// Only the rank's main thread handles signals.
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
  std::vector<int> all_ranks(static_cast<std::size_t>(world.size()));
  std::iota(all_ranks.begin(), all_ranks.end(), 0);
  const auto group = world.split("watchdog", all_ranks);
  Stream stream;
  const std::vector<std::string>& hosts = world.hosts();
  Socket listener;
  LeaderCard own;
  if (world.rank() < Watch::kLeaders) {
    const std::vector<std::uint32_t> addresses = addresses_for(hosts);
    listener = Socket::listen(addresses.size() == 1 ? addresses.front() : every_address());
    own = make_card(listener, addresses);
  }
  std::vector<LeaderCard> cards;
  for (int leader = 0; leader < std::min(Watch::kLeaders, world.size()); ++leader) {
    auto words = std::bit_cast<CardWords>(own);
    group->broadcast(stream, host_tensor(std::span(words)), leader);
    cards.push_back(std::bit_cast<LeaderCard>(words));
  }
  std::vector<Watch::Place> leaders;
  std::transform(cards.begin(), cards.end(), std::back_inserter(leaders), place_on);
  const bool has_places = std::all_of(leaders.begin(), leaders.end(),
                                      [](const auto& place) { return !place.addresses.empty(); });
  bool is_connected = false;
  if (has_places) {
    watch_.emplace(Watch::Setup{.rank = world.rank(),
                                .hosts = hosts,
                                .recorder = world.recorder(),
                                .token = RunToken(cards.front().token),
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
        "watchdog disabled: not every rank can connect to ranks 0 and 1 over TCP (IPv4); a hung "
        "rank will not be detected");
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
