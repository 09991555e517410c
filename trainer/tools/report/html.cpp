#include "trainer/tools/report/html.h"

#include <cstddef>
#include <set>

#include "data/utf8.h"
#include "model/base/error.h"

namespace trireme {

std::string html_escape(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = data::character_size(text);
    const char c = text.front();
    const bool is_control =
        (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F;
    if (length == 0 || is_control) {
      if (c != '\r') out += data::kReplacementCharacter;
    } else if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (c == '\'') {
      out += "&#39;";
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out;
}

std::string json_for_script(const nlohmann::ordered_json& value) {
  const std::string plain =
      value.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  std::string out;
  for (const char c : plain) {  // these three occur only inside JSON strings
    if (c == '<') {
      out += "\\u003c";
    } else if (c == '>') {
      out += "\\u003e";
    } else if (c == '&') {
      out += "\\u0026";
    } else {
      out += c;
    }
  }
  return out;
}

std::string fill(std::string_view form,
                 const std::map<std::string, std::string, std::less<>>& values) {
  std::string out;
  std::set<std::string_view> used;
  while (true) {
    const std::size_t open = form.find("{{");
    out += form.substr(0, open);
    if (open == std::string_view::npos) break;
    const std::size_t close = form.find("}}", open);
    require(close != std::string_view::npos, "the template has {{ without }}");
    const std::string_view name = form.substr(open + 2, close - open - 2);
    const auto value = values.find(name);
    require(value != values.end(), "no value for {{", name, "}}");
    used.insert(value->first);
    out += value->second;
    form.remove_prefix(close + 2);
  }
  require(used.size() == values.size(), "the template does not use every value");
  return out;
}

}  // namespace trireme
