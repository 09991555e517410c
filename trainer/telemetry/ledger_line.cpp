#include "trainer/telemetry/ledger_line.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <nlohmann/json.hpp>

#include "model/base/error.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

Json ranges(const std::vector<data::SampleRange>& ranges) {
  Json list = Json::array();
  for (const data::SampleRange& range : ranges) list.push_back({range.first, range.end});
  return list;
}

Json to_json(const LedgerBegin& begin) {
  Json json{{"begin", begin.why},
            {"incarnation", begin.incarnation},
            {"after", begin.after},
            {"weights", begin.weights},
            {"skip", ranges(begin.skip)},
            {"data", begin.data},
            {"computation", begin.computation}};
  if (begin.events) {
    json["events"] = begin.events->lines;
    json["events_chain"] = chain_text(begin.events->chain);
  }
  return json;
}

Json to_json(const LedgerStep& step) {
  const auto bits = [](double value) { return chain_text(std::bit_cast<std::uint64_t>(value)); };
  return {{"step", step.step},
          {"incarnation", step.incarnation},
          {"samples", {step.samples.first, step.samples.end}},
          {"left_out", ranges(step.left_out)},
          {"sequences", step.sequences},
          {"tokens", step.tokens},
          {"hash", chain_text(step.hash)},
          {"loss", bits(step.loss)},
          {"grad_norm", bits(step.grad_norm)},
          {"lr", bits(step.lr)},
          {"attempts", step.attempts},
          {"products_chosen", step.products_chosen}};
}

// Typed access to the keys of one line.
class Reader {
 public:
  explicit Reader(const Json& line) : line_(line) {}

  bool has(const char* key) const { return line_.contains(key); }
  std::int64_t count(const char* key) const {
    const Json& value = at(key);
    if (!value.is_number_unsigned()) refuse(key, "an unsigned integer");
    const auto number = value.get<std::uint64_t>();
    if (number > static_cast<std::uint64_t>(INT64_MAX))
      refuse(key, "an unsigned integer below 2^63");
    return static_cast<std::int64_t>(number);
  }
  std::uint64_t bits(const char* key) const {
    const auto value = chain_from(text(key));
    if (!value) refuse(key, "16 hex digits");
    return *value;
  }
  double number(const char* key) const { return std::bit_cast<double>(bits(key)); }
  std::string text(const char* key) const { return as<std::string>(key, "a string"); }
  bool truth(const char* key) const { return as<bool>(key, "true or false"); }
  std::map<std::string, std::string> texts(const char* key) const {
    return as<std::map<std::string, std::string>>(key, "an object of strings");
  }
  data::SampleRange range(const char* key) const { return range_of(key, at(key)); }
  std::vector<data::SampleRange> ranges(const char* key) const {
    if (!at(key).is_array()) refuse(key, "a list of ranges");
    std::vector<data::SampleRange> list;
    for (const Json& value : at(key)) list.push_back(range_of(key, value));
    return list;
  }

 private:
  const Json& at(const char* key) const {
    const auto found = line_.find(key);
    if (found == line_.end()) throw DataError(say("missing key \"", key, "\""));
    return *found;
  }
  [[noreturn]] static void refuse(const char* key, const char* expected) {
    throw DataError(say("\"", key, "\" is not ", expected));
  }
  data::SampleRange range_of(const char* key, const Json& value) const {
    constexpr const char* kWanted = "[FIRST, END) with FIRST below END";
    if (!value.is_array() || value.size() != 2) refuse(key, kWanted);
    if (!value[0].is_number_unsigned() || !value[1].is_number_unsigned()) refuse(key, kWanted);
    const data::SampleRange range{value[0].get<std::uint64_t>(), value[1].get<std::uint64_t>()};
    if (range.first >= range.end) refuse(key, kWanted);
    return range;
  }
  template <class T>
  T as(const char* key, const char* expected) const {
    try {
      return at(key).get<T>();
    } catch (const Json::exception&) {
      refuse(key, expected);
    }
  }

  const Json& line_;
};

LedgerBegin read_begin(const Reader& line) {
  return {.why = line.text("begin"),
          .incarnation = line.count("incarnation"),
          .after = line.count("after"),
          .weights = line.text("weights"),
          .skip = line.ranges("skip"),
          .data = line.text("data"),
          .computation = line.texts("computation"),
          .events = line.has("events")
                        ? std::optional(EventsMark{line.count("events"), line.bits("events_chain")})
                        : std::nullopt};
}

LedgerStep read_step(const Reader& line) {
  return {.step = line.count("step"),
          .incarnation = line.count("incarnation"),
          .samples = line.range("samples"),
          .left_out = line.ranges("left_out"),
          .sequences = line.count("sequences"),
          .tokens = line.count("tokens"),
          .hash = line.bits("hash"),
          .loss = line.number("loss"),
          .grad_norm = line.number("grad_norm"),
          .lr = line.number("lr"),
          .attempts = line.count("attempts"),
          .products_chosen = line.truth("products_chosen")};
}

}  // namespace

ChainedText ledger_text(const LedgerLine& line, std::uint64_t chain_before) {
  const Json json = std::visit([](const auto& some) { return to_json(some); }, line);
  return chained(json.dump(-1, ' ', false, Json::error_handler_t::replace), chain_before);
}

LedgerLine parse_ledger_line(std::string_view text) {
  const Json line = Json::parse(text, nullptr, false);
  if (!line.is_object()) throw DataError("not a JSON object");
  const Reader reader(line);
  if (line.contains("begin")) return read_begin(reader);
  return read_step(reader);
}

}  // namespace trireme
