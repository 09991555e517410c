#pragma once
#include <string>

namespace trireme {

// Expands ~/run, $HOME/run and ${HOME}/run to the home folder.
struct LocalPath {
  std::string path;
  std::string problem;  // error; empty if valid
};
LocalPath local_path(const std::string& text);

}  // namespace trireme
