#include "trainer/supervise/launch/start_ranks.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "model/base/error.h"
#include "trainer/supervise/launch/hosts.h"

namespace trireme {

void become_ranks(int ranks, const std::vector<std::string>& words) {
  std::vector<std::string> all = ThisHost(ranks).launcher(ranks, {}, {});
  all.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (std::string& word : all) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  throw EnvironmentError(say("cannot start ", all.front(), ": ", std::strerror(errno)));
}

}  // namespace trireme
