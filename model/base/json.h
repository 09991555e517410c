#pragma once
#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "model/base/error.h"
#include "model/base/hex.h"

// The codec of the program's own JSON. A struct lists its fields once, in its namespace:
//
//   TRIREME_JSON(Link, name, bandwidth)  // each key is the name of the member
//
//   void json_fields(auto& f, StoredFile& file) {
//     f("file", file.name, {.most = 64});
//     f.hex("crc32c", file.crc32c);
//   }
//
// Fields are numbers, bool, std::string, nlohmann::json objects, structs with fields, and lists and
// maps of them. A type that JSON holds as another has json_form(value) and set_json_form(value,
// form) in its namespace; the latter returns null, or what is expected instead.
//
// Reading is strict: a missing, repeated or unknown key, a value of another type and a number out
// of bounds are errors that name the text, the path of the key and the value.
#define TRIREME_JSON_FIELD(member) json_field(#member, json_struct.member);
#define TRIREME_JSON(Type, ...)                                                \
  inline void json_fields(auto& json_field, Type& json_struct) {               \
    NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(TRIREME_JSON_FIELD, __VA_ARGS__)) \
  }

namespace trireme {

// Integers up to this are exact in every JSON reader.
inline constexpr std::uint64_t kMostJsonNumber = std::uint64_t{1} << 53;

// Of a number, of each number in a list, and of the bytes of a string.
struct JsonBounds {
  std::int64_t least = 0;
  std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
};

// Whether an object may have keys besides its fields, as a file may that another version wrote.
enum class JsonKeys { kKnown, kAny };

// Why a text is refused, and the path of the value: "tensors[3].dtype".
struct JsonProblem {
  std::string why, path = {};
  void prepend(std::string_view key);
  void prepend(std::size_t index);
  std::string text(const std::string& from) const;
};
[[noreturn]] void refuse_json(const std::string& expected, const nlohmann::json& found);
const nlohmann::json& require_json(const nlohmann::json& value, nlohmann::json::value_t type);
std::uint64_t whole_number(const nlohmann::json& value, JsonBounds bounds);

// The fields of an object that is read.
class JsonReader {
 public:
  static constexpr bool kReads = true;
  explicit JsonReader(const nlohmann::json& value)
      : value_(require_json(value, nlohmann::json::value_t::object)) {}

  template <class T>
  void operator()(const char* key, T& value, JsonBounds bounds = {}) {
    read(key, [&](const nlohmann::json& from) { read_json_value(from, value, bounds); });
  }
  // A number as hex digits.
  template <class T>
  void hex(const char* key, T& value) {
    read(key, [&](const nlohmann::json& from) {
      const auto number = from.is_string() ? from_hex<T>(from.get<std::string>()) : std::nullopt;
      if (!number) refuse_json(say(2 * sizeof(T), " hex digits are"), from);
      value = *number;
    });
  }
  // Null if empty.
  template <class T>
  void nullable(const char* key, std::optional<T>& value, JsonBounds bounds = {}) {
    read(key, [&](const nlohmann::json& from) {
      if (!from.is_null()) read_json_value(from, value.emplace(), bounds);
    });
  }
  // Whether a key that may be absent is there; when writing, `written`.
  bool has(const char* key, bool /*written*/ = true) const { return value_.contains(key); }
  void check(const char* key, bool holds, const std::string& why) const {
    if (!holds) throw JsonProblem{why, key};
  }
  void refuse_unknown_keys() const;

 private:
  const nlohmann::json& at(const char* key);
  void read(const char* key, const auto& work) try { work(at(key)); } catch (JsonProblem& problem) {
    problem.prepend(key);
    throw;
  }

  const nlohmann::json& value_;
  std::vector<std::string_view> known_;  // keys
};

template <class T>
void read_json_value(const nlohmann::json& from, T& into, JsonBounds bounds = {},
                     JsonKeys keys = JsonKeys::kKnown) {
  using Type = nlohmann::json::value_t;
  const auto read_part = [&](const nlohmann::json& part, auto& value, const auto& step) {
    try {
      read_json_value(part, value, bounds);
    } catch (JsonProblem& problem) {
      problem.prepend(step);
      throw;
    }
  };
  if constexpr (std::same_as<T, bool>) {
    into = require_json(from, Type::boolean).get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
    into = static_cast<T>(whole_number(from, {bounds.least, std::min(bounds.most, kMost)}));
  } else if constexpr (std::is_floating_point_v<T>) {
    if (!from.is_number()) refuse_json("a number is", from);
    into = from.get<T>();
  } else if constexpr (std::same_as<T, std::string>) {
    into = require_json(from, Type::string).get_ref<const std::string&>();
    if (into.size() > bounds.most) throw JsonProblem{say("more than ", bounds.most, " bytes")};
  } else if constexpr (std::same_as<T, nlohmann::json>) {
    into = require_json(from, Type::object);
  } else if constexpr (requires { json_form(into); }) {
    decltype(json_form(into)) form{};
    read_json_value(from, form, bounds);
    if (const char* expected = set_json_form(into, form)) refuse_json(expected, from);
  } else if constexpr (requires { typename T::mapped_type; }) {
    into.clear();
    for (const auto& [key, value] : require_json(from, Type::object).items()) {
      read_part(value, into[key], key);
    }
  } else if constexpr (requires { typename T::value_type; }) {
    constexpr bool kIsArray = requires {
      std::tuple_size<T>::value;
    };
    require_json(from, Type::array);
    if (kIsArray && from.size() != into.size()) refuse_json(say(into.size(), " values are"), from);
    if constexpr (!kIsArray) into.clear();
    for (std::size_t i = 0; i < from.size(); ++i) {
      typename T::value_type value{};
      read_part(from[i], value, i);
      if constexpr (kIsArray) {
        into[i] = value;
      } else {
        into.insert(into.end(), std::move(value));
      }
    }
  } else {
    JsonReader fields(from);
    json_fields(fields, into);
    if (keys == JsonKeys::kKnown) fields.refuse_unknown_keys();
  }
}

template <class Json, class T>
Json as_json(const T& value);

// The fields of an object that is written.
template <class Json>
class JsonWriter {
 public:
  static constexpr bool kReads = false;
  template <class T>
  void operator()(const char* key, const T& value, JsonBounds /*bounds*/ = {}) {
    object[key] = as_json<Json>(value);
  }
  template <class T>
  void hex(const char* key, T value) {
    object[key] = trireme::hex(value);
  }
  template <class T>
  void nullable(const char* key, const std::optional<T>& value, JsonBounds /*bounds*/ = {}) {
    object[key] = value ? as_json<Json>(*value) : Json();
  }
  static bool has(const char* /*key*/, bool written = true) { return written; }
  static void check(const char* /*key*/, bool /*holds*/, const std::string& /*why*/) {}

  Json object = Json::object();
};

// As nlohmann::json, whose keys are sorted, or nlohmann::ordered_json, in the order of the fields.
template <class Json = nlohmann::json, class T>
Json as_json(const T& value) {
  if constexpr (requires { json_form(value); }) {
    return as_json<Json>(json_form(value));
  } else if constexpr (std::is_constructible_v<Json, T>) {
    return Json(value);
  } else if constexpr (requires { typename T::mapped_type; }) {
    Json object = Json::object();
    for (const auto& [key, one] : value) object[key] = as_json<Json>(one);
    return object;
  } else if constexpr (requires { typename T::value_type; }) {
    Json list = Json::array();
    for (const auto& one : value) list.push_back(as_json<Json>(one));
    return list;
  } else {
    JsonWriter<Json> fields;
    json_fields(fields, const_cast<T&>(value));  // only reads them
    return std::move(fields.object);
  }
}

// On one line, or indented. Invalid UTF-8, as in paths, becomes replacement characters.
template <class Json = nlohmann::json, class T>
std::string json_text(const T& value, int indent = -1) {
  return as_json<Json>(value).dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Does `read`, with a Fault for a JsonProblem. `from` names the text in its message.
template <class Fault>
auto with_json_fault(const std::string& from, const auto& read) {
  try {
    return read();
  } catch (const JsonProblem& problem) {
    throw Fault(problem.text(from));
  }
}

// Parses untrusted text: no duplicate keys, bounded nesting.
nlohmann::json parse_json(std::string_view text);
template <class Fault>
nlohmann::json parse_json(std::string_view text, const std::string& from) {
  return with_json_fault<Fault>(from, [&] { return parse_json(text); });
}

// Reads a value of parsed JSON, or a text.
template <class T, class Fault = Error>
T json_value(const nlohmann::json& parsed, const std::string& from,
             JsonKeys keys = JsonKeys::kKnown) {
  return with_json_fault<Fault>(from, [&] {
    T value{};
    read_json_value(parsed, value, {}, keys);
    return value;
  });
}
template <class T, class Fault = Error>
T read_json(std::string_view text, const std::string& from, JsonKeys keys = JsonKeys::kKnown) {
  return json_value<T, Fault>(parse_json<Fault>(text, from), from, keys);
}

// Nothing if the text is damaged or of something else.
template <class T>
std::optional<T> valid_json(std::string_view text, JsonKeys keys = JsonKeys::kKnown) {
  try {
    return read_json<T>(text, "", keys);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// For JSON of other programs: the value if it is a T (bool, std::int64_t, double, std::string).
template <class T>
std::optional<T> json_as(const auto& value) {
  const bool is_it = std::same_as<T, bool>          ? value.is_boolean()
                     : std::same_as<T, std::string> ? value.is_string()
                     : std::same_as<T, double>      ? value.is_number()
                                                    : value.is_number_integer();
  return is_it ? std::optional(value.template get<T>()) : std::nullopt;
}
// Nothing if `object` is none, has no such key, or a value of another type.
template <class T>
std::optional<T> json_at(const auto& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? std::nullopt : json_as<T>(*found);
}

}  // namespace trireme
