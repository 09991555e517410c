#include "trainer/loop/inject/words.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "model/base/error.h"

namespace trireme::inject {

std::optional<std::map<std::string, std::string>> parse_words(const std::string& text) {
  std::map<std::string, std::string> values;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) return std::nullopt;
    if (!values.emplace(word.substr(0, equals), word.substr(equals + 1)).second)
      return std::nullopt;
  }
  return values;
}

bool claim_once(const char* variable, const std::filesystem::path& file) {
  if (file.empty()) return true;
  const int created = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (created < 0 && errno == EEXIST) return false;
  if (created < 0) {
    throw EnvironmentError(
        say(variable, ": cannot create ", file.string(), ": ", std::strerror(errno)));
  }
  ::close(created);
  return true;
}

}  // namespace trireme::inject
