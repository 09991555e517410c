#include "trainer/tools/report/fill.h"

#include <set>

#include "model/base/error.h"

namespace trireme {

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
