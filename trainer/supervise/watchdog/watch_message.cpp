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
  void operator()(const Value& value) {
    static_assert(std::is_trivially_copyable_v<Value>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& text, std::size_t most) {
    (*this)(static_cast<std::uint32_t>(std::min(text.size(), most)));
    bytes_.append(text, 0, most);
  }
  void list(auto& values, std::size_t most, const auto& each) {
    const std::size_t count = std::min(values.size(), most);
    (*this)(static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) each(values[i]);
  }
  std::string bytes() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}
  template <class Value>
  void operator()(Value& value) {
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
  }
  void text(std::string& text, std::size_t /*most*/) {
    std::uint32_t size = 0;
    (*this)(size);
    text = take(size);
  }
  void list(auto& values, std::size_t most, const auto& each) {
    std::uint32_t count = 0;
    (*this)(count);
    require(count <= most, "a watchdog message has a count of ", count, ", above its limit of ",
            most);
    values.resize(count);
    std::for_each(values.begin(), values.end(), each);
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

// The fields of a message, for both.
void wire_fields(auto& fields, FlightRecorderPage& page) {
  fields(page.progress);
  fields.list(page.groups, flight::kGroups, [&](RecordedGroup& group) {
    fields.text(group.name, sizeof(flight::GroupInfo::name));
    fields(group.key);
    fields(group.size);
    fields(group.begun);
    fields(group.finished);
  });
}

void wire_fields(auto& fields, WatchMessage& message) {
  using Kind = WatchMessage::Kind;
  const auto ranks = [&] {
    fields.list(message.ranks, kMostMessageRanks, [&](int& rank) { fields(rank); });
  };
  fields(message.kind);
  switch (message.kind) {
    case Kind::kHello:
      fields(message.rank);
      return fields(message.pid);
    case Kind::kFailure:
      fields(message.health);
      fields.text(message.text, kMostText);
      [[fallthrough]];
    case Kind::kBeat:
      fields(message.now);
      return wire_fields(fields, message.page);
    case Kind::kVerdict:
      fields(message.health);
      fields.text(message.text, 2 * kMostText);
      fields(message.now);
      return ranks();
    case Kind::kAsk:
      return ranks();
    case Kind::kGoodbye:
      return;
  }
  throw Error("a watchdog message has an unknown kind");
}

}  // namespace

std::string WatchMessage::encoded() const {
  Packer body;
  wire_fields(body, const_cast<WatchMessage&>(*this));  // only reads it
  return std::move(body).bytes();
}

WatchMessage WatchMessage::decoded(std::string_view bytes) {
  Unpacker from(bytes);
  WatchMessage message;
  wire_fields(from, message);
  from.end();
  return message;
}

}  // namespace trireme
