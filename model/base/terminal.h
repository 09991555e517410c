#pragma once

namespace trireme {

// Whether lines can be erased and rewritten: a terminal whose TERM is not "dumb".
bool can_rewrite_lines(int descriptor);

// Whether NO_COLOR is set (no-color.org).
bool forbids_color();

}  // namespace trireme
