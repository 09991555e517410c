#pragma once
#include <string>

namespace trireme {

// Every key with type, default, allowed values and help, for a terminal.
std::string reference_text();

// The same as Markdown tables, a section each. README.md holds this text.
std::string reference_markdown();

}  // namespace trireme
