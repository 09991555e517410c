#pragma once
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

namespace trireme::checkpoint {

// Parses untrusted JSON: no duplicate keys, bounded nesting. Throws CheckpointError naming `from`.
nlohmann::json parse_json(std::string_view text, const std::string& from);

// Serializes to text; invalid UTF-8, as in paths of messages, is allowed.
std::string text_of(const nlohmann::json& value);

// Strict reader of one JSON object: every requested key must exist with the right type and range,
// and any other key is an error. `where` names the object in messages: "manifest.json: tensors[3]".
class JsonObject {
 public:
  JsonObject(const nlohmann::json& value, std::string where);

  const nlohmann::json& object(const char* key);
  const nlohmann::json& array(const char* key);
  const nlohmann::json& any(const char* key);
  const std::string& text(const char* key, std::size_t most);
  std::uint64_t number(const char* key, std::uint64_t most);
  std::uint32_t crc(const char* key);  // eight lowercase hex digits
  // Must be called last: throws if the object has keys that were not requested.
  void finish() const;

  [[noreturn]] void refuse(const char* key, const std::string& why) const;
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json& value_;
  std::string where_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace trireme::checkpoint
