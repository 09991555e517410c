#include "trainer/convert/huggingface/config_fields.h"

#include <algorithm>

#include "model/base/error.h"
#include "trainer/config/value_text.h"

namespace trireme {

using nlohmann::json;

namespace {

std::string text_of(const json& value) {
  return shown(value.dump(-1, ' ', true, json::error_handler_t::replace), 100);
}

}  // namespace

ConfigFields::ConfigFields(const json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object_.is_object()) throw CheckpointError(say(where_, ": must be a JSON object"));
}

const json* ConfigFields::find(const std::string& key) {
  known_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::int64_t ConfigFields::size(const std::string& key) {
  if (!find(key)) refuse(key, nullptr, "is required");
  return size_or(key, 1);
}

std::int64_t ConfigFields::size_or(const std::string& key, std::int64_t otherwise) {
  const json* value = find(key);
  if (!value) return otherwise;
  if (value->is_number_integer() && *value >= 1 && *value <= (std::int64_t{1} << 40)) return *value;
  refuse(key, *value, "must be a positive integer");
  return otherwise;
}

void ConfigFields::only(const std::string& key, const std::vector<json>& values) {
  const json* value = find(key);
  if (!value || std::find(values.begin(), values.end(), *value) != values.end()) return;
  refuse(key, *value, "changes the model's computation and is not implemented");
}

void ConfigFields::refuse(const std::string& key, const json& value, const std::string& why) {
  refused_ += say("\n  ", key, " = ", text_of(value), ": ", why);
}

std::vector<std::string> ConfigFields::finish() {
  if (!refused_.empty()) throw CheckpointError(say(where_, " cannot be imported:", refused_));
  for (const auto& [key, value] : object_.items()) {
    if (known_.contains(key) || value.is_null() || value == false) continue;
    notes_.push_back(say(shown(key), " = ", text_of(value)));
  }
  return notes_;
}

}  // namespace trireme
