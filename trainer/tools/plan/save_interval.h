#pragma once

namespace trireme {

// How often to save a run that fails now and then, at random (exponentially): seconds of training
// between saves, each of which stops it for `save`, with one failure in `between_failures` seconds
// of the whole run.
double young_interval(double save, double between_failures);  // Young 1974
double daly_interval(double save, double between_failures);   // Daly 2006, of higher order

// Share of the time that is lost, to first order: the saves, and after each failure half an
// interval that is computed again and the restart.
double lost_share(double interval, double save, double between_failures, double restart);

}  // namespace trireme
