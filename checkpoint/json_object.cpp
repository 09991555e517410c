#include "checkpoint/json_object.h"

#include <vector>

#include "model/base/error.h"

namespace trireme::checkpoint {
namespace {

constexpr int kMaxDepth = 32;

// Shortens a parser's message about untrusted text and removes control characters.
std::string printable(std::string text) {
  constexpr std::size_t kMost = 200;
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = '?';
  }
  return text;
}

}  // namespace

std::string text_of(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

nlohmann::json parse_json(std::string_view text, const std::string& from) {
  using Event = nlohmann::json::parse_event_t;
  std::vector<std::set<std::string>> keys;  // of the enclosing objects
  const auto watch = [&](int depth, Event event, nlohmann::json& parsed) {
    if (depth > kMaxDepth) throw CheckpointError(say(from, ": nested too deeply"));
    if (event == Event::object_start) keys.emplace_back();
    if (event == Event::object_end) keys.pop_back();
    if (event == Event::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second) {
        throw CheckpointError(say(from, ": key \"", printable(key), "\" appears twice"));
      }
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::exception& error) {
    throw CheckpointError(say(from, ": ", printable(error.what())));
  }
}

JsonObject::JsonObject(const nlohmann::json& value, std::string where)
    : value_(value), where_(std::move(where)) {
  if (!value_.is_object()) {
    throw CheckpointError(say(where_, ": an object is expected, found ", value_.type_name()));
  }
}

void JsonObject::refuse(const char* key, const std::string& why) const {
  throw CheckpointError(say(where_, ": ", key, ": ", why));
}

const nlohmann::json& JsonObject::any(const char* key) {
  known_.insert(key);
  const auto found = value_.find(key);
  if (found == value_.end()) refuse(key, "missing");
  return *found;
}

const nlohmann::json& JsonObject::object(const char* key) {
  const auto& value = any(key);
  if (!value.is_object()) refuse(key, say("an object is expected, found ", value.type_name()));
  return value;
}

const nlohmann::json& JsonObject::array(const char* key) {
  const auto& value = any(key);
  if (!value.is_array()) refuse(key, say("an array is expected, found ", value.type_name()));
  return value;
}

const std::string& JsonObject::text(const char* key, std::size_t most) {
  const auto& value = any(key);
  if (!value.is_string()) refuse(key, say("a string is expected, found ", value.type_name()));
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > most) refuse(key, say(text.size(), " bytes, more than ", most));
  return text;
}

std::uint64_t JsonObject::number(const char* key, std::uint64_t most) {
  const auto& value = any(key);
  if (!value.is_number_unsigned()) {
    refuse(key, say("a whole number is expected, found ", printable(value.dump())));
  }
  const auto number = value.get<std::uint64_t>();
  if (number > most) refuse(key, say(number, " is more than ", most));
  return number;
}

std::uint32_t JsonObject::crc(const char* key) {
  const std::string& digits = text(key, 8);
  std::uint32_t value = 0;
  for (const char c : digits) {
    const bool letter = c >= 'a' && c <= 'f';
    if (!letter && (c < '0' || c > '9')) refuse(key, "eight hex digits are expected");
    value = value << 4 | static_cast<std::uint32_t>(letter ? c - 'a' + 10 : c - '0');
  }
  if (digits.size() != 8) refuse(key, "eight hex digits are expected");
  return value;
}

void JsonObject::finish() const {
  for (const auto& [key, value] : value_.items()) {
    if (!known_.contains(key)) {
      throw CheckpointError(say(where_, ": unknown key \"", printable(key), "\""));
    }
  }
}

}  // namespace trireme::checkpoint
