#pragma once
#include <string>

#include "trainer/config/option.h"

namespace trireme {

// What there is to say of a key, for people.
struct OptionWords {
  std::string type;
  std::string default_value;
  std::string allowed;  // may be empty
  std::string help;     // with the key's other names
  std::string on_resume;
};
OptionWords words_of(const Option& option);

// Every key with type, default, allowed values and help, for a terminal.
std::string reference_text();

// The same as Markdown tables, a section each. configs/REFERENCE.md holds this text.
std::string reference_markdown();

}  // namespace trireme
