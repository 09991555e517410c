#include "trainer/supervise/watchdog/watch_message.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "model/base/error.h"

namespace trireme {
namespace {

constexpr std::size_t kMostText = 4096;
constexpr std::size_t kMostMessageRanks = 4096;

class Packer {
 public:
  template <class Value>
  void put(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put_text(const std::string& text, std::size_t most) {
    put(static_cast<std::uint32_t>(std::min(text.size(), most)));
    bytes_.append(text, 0, most);
  }
  std::string bytes() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

void put_ranks(Packer& to, const std::vector<int>& ranks) {
  const std::size_t count = std::min(ranks.size(), kMostMessageRanks);
  to.put(static_cast<std::uint32_t>(count));
  for (std::size_t i = 0; i < count; ++i) to.put(ranks[i]);
}

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}
  template <class Value>
  Value get() {
    Value value{};
    const std::string_view taken = take(sizeof value);
    std::memcpy(&value, taken.data(), sizeof value);
    return value;
  }
  std::string get_text() { return std::string(take(get<std::uint32_t>())); }
  std::size_t get_count(std::size_t most) {
    const auto count = get<std::uint32_t>();
    require(count <= most, "a watchdog message has a count of ", count, ", above its limit of ",
            most);
    return count;
  }
  void end() const { require(bytes_.empty(), "a watchdog message is too long"); }

 private:
  std::string_view take(std::size_t count) {
    require(count <= bytes_.size(), "a watchdog message is truncated");
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  std::string_view bytes_;
};

void put_page(Packer& to, const FlightRecorderPage& page) {
  to.put(page.progress);
  to.put(static_cast<std::uint32_t>(page.groups.size()));
  for (const RecordedGroup& group : page.groups) {
    to.put_text(group.name, sizeof(flight::GroupInfo::name));
    to.put(group.key);
    to.put(group.size);
    to.put(group.begun);
    to.put(group.finished);
  }
}

FlightRecorderPage get_page(Unpacker& from) {
  FlightRecorderPage page;
  page.progress = from.get<flight::Progress>();
  page.groups.resize(from.get_count(flight::kGroups));
  for (RecordedGroup& group : page.groups) {
    group.name = from.get_text();
    group.key = from.get<std::uint64_t>();
    group.size = from.get<std::uint32_t>();
    group.begun = from.get<std::uint64_t>();
    group.finished = from.get<std::uint64_t>();
  }
  return page;
}

std::vector<int> get_ranks(Unpacker& from) {
  std::vector<int> ranks(from.get_count(kMostMessageRanks));
  for (int& rank : ranks) rank = from.get<int>();
  return ranks;
}

}  // namespace

std::string WatchMessage::encoded() const {
  Packer body;
  body.put(kind);
  switch (kind) {
    case Kind::kHello:
      body.put(rank);
      body.put(pid);
      break;
    case Kind::kFailure:
      body.put(health);
      body.put_text(text, kMostText);
      [[fallthrough]];
    case Kind::kBeat:
      body.put(now);
      put_page(body, page);
      break;
    case Kind::kVerdict:
      body.put(health);
      body.put_text(text, 2 * kMostText);
      body.put(now);
      put_ranks(body, ranks);
      break;
    case Kind::kAsk:
      put_ranks(body, ranks);
      break;
    case Kind::kGoodbye:
      break;
  }
  return std::move(body).bytes();
}

WatchMessage WatchMessage::decoded(std::string_view bytes) {
  Unpacker from(bytes);
  WatchMessage message;
  message.kind = from.get<Kind>();
  switch (message.kind) {
    case Kind::kHello:
      message.rank = from.get<std::int32_t>();
      message.pid = from.get<std::int32_t>();
      break;
    case Kind::kFailure:
      message.health = from.get<RankHealth>();
      message.text = from.get_text();
      [[fallthrough]];
    case Kind::kBeat:
      message.now = from.get<std::int64_t>();
      message.page = get_page(from);
      break;
    case Kind::kVerdict:
      message.health = from.get<RankHealth>();
      message.text = from.get_text();
      message.now = from.get<std::int64_t>();
      message.ranks = get_ranks(from);
      break;
    case Kind::kAsk:
      message.ranks = get_ranks(from);
      break;
    case Kind::kGoodbye:
      break;
    default:
      throw Error("a watchdog message has an unknown kind");
  }
  from.end();
  return message;
}

}  // namespace trireme
