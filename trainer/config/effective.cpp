#include "trainer/config/effective.h"

#include "model/base/error.h"
#include "trainer/config/option.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

std::string origin_text(const LoadedConfig& loaded, const std::string& key) {
  const Origin origin = loaded.origin(key);
  switch (origin.kind) {
    case Origin::Kind::kDefault:
      return "default";
    case Origin::Kind::kFamily:
      return "default of " + loaded.config.model.model_type;
    case Origin::Kind::kFlavor:
      return "flavor " + loaded.config.flavor;
    case Origin::Kind::kDerived:
      return "derived";
    case Origin::Kind::kFile:
      return say(shown(loaded.source, 200), ":", origin.line);
    case Origin::Kind::kCommandLine:
      return "command line";
  }
  return "";
}

}  // namespace

std::string effective_toml(const LoadedConfig& loaded) {
  constexpr std::size_t kCommentColumn = 44;
  RunConfig config = loaded.config;  // slots point to mutable members
  std::string text;
  std::string section;
  for (const Option& option : options()) {
    if (option.applies != nullptr && !option.applies(config)) continue;
    if (option.section() != section) {
      text += say(section.empty() ? "" : "\n", "[", option.section(), "]\n");
      section = option.section();
    }
    std::string line = say(option.name(), " = ", to_toml(option.slot(config)));
    line.resize(std::max(line.size(), kCommentColumn), ' ');
    text += say(line, "  # ", origin_text(loaded, option.key), "\n");
  }
  return text;
}

}  // namespace trireme
