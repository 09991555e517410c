#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace trireme {

// One-line message for a command line refused by CLI11, with the nearest option or command for an
// unknown word. `program` must have been parsed after allow_unknown_words().
std::string usage_complaint(const CLI::App& program, const CLI::ParseError& error);

// The same for unknown words; empty if there are none.
std::string unknown_word_complaint(const CLI::App& program);

// Makes parsing accept unknown words, so that the message can name them.
void allow_unknown_words(CLI::App& program);

}  // namespace trireme
