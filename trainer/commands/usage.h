#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace trireme {

// What is wrong with a command line that CLI11 refused, in one line, with the nearest
// option or command where a word is unknown. `program` must have been parsed with
// allow_unknown_words() in force.
std::string usage_complaint(const CLI::App& program, const CLI::ParseError& error);

// The same for words nobody took; empty when there are none.
std::string unknown_word_complaint(const CLI::App& program);

// Lets parsing finish although words are unknown, so that the complaint can name them.
void allow_unknown_words(CLI::App& program);

}  // namespace trireme
