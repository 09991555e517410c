#pragma once
#include "trainer/commands/command.h"

namespace trireme {

// trireme tokenize: text files -> a dataset of tokens, or a vocabulary.
Command make_tokenize(CLI::App& program);

}  // namespace trireme
