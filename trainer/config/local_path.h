#pragma once
#include <string>

namespace trireme {

// A path as a config may write it: ~/run, $HOME/run and ${HOME}/run begin in the home folder.
struct LocalPath {
  std::string path;
  std::string problem;  // why it is none; empty: it is one
};
LocalPath local_path(const std::string& text);

}  // namespace trireme
