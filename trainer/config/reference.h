#pragma once
#include <string>

#include "trainer/config/option.h"

namespace trireme {

// Documentation of a key.
struct OptionDocs {
  std::string type;
  std::string default_value;
  std::string allowed;  // may be empty
  std::string help;     // with aliases
  std::string on_resume;
};
OptionDocs docs_of(const Option& option);

// Every key with type, default, allowed values and help, for a terminal.
std::string reference_text();

// The same as Markdown tables, one per section. configs/REFERENCE.md holds this text.
std::string reference_markdown();

}  // namespace trireme
