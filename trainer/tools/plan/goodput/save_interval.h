#pragma once

namespace trireme {

// Optimal checkpoint interval in seconds of training, for exponentially distributed failures with a
// mean of `between_failures` seconds and saves that block training for `save` seconds.
double young_interval(double save, double between_failures);  // Young 1974
double daly_interval(double save, double between_failures);   // Daly 2006, of higher order

}  // namespace trireme
