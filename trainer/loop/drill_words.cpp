#include "trainer/loop/drill_words.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "model/base/error.h"

namespace trireme {

std::optional<std::map<std::string, std::string>> drill_words(const std::string& text) {
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

bool take_once(const char* variable, const std::filesystem::path& file) {
  if (file.empty()) return true;
  const int made = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (made < 0 && errno == EEXIST) return false;
  if (made < 0) {
    throw EnvironmentError(
        say(variable, ": cannot make ", file.string(), ": ", std::strerror(errno)));
  }
  ::close(made);
  return true;
}

}  // namespace trireme
