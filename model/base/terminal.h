#pragma once

namespace trireme {

// Whether a line on it may be erased and written again: a terminal, and not one that TERM calls
// dumb.
bool can_rewrite_lines(int descriptor);

// NO_COLOR (no-color.org).
bool forbids_color();

}  // namespace trireme
