#pragma once
#include <CLI/CLI.hpp>

#include "trainer/tools/plan/goodput/failure_costs.h"

namespace trireme {

// Finite, and neither absurdly small nor large; other checks of numbers let NaN pass.
CLI::Validator number_between(double least, double most);

// Failures and what they cost, for the expected goodput.
void add_failure_options(CLI::App& app, FailureOptions& options);
// Throws ConfigError for costs without a rate of failures, which would have no effect.
void require_failures(const FailureOptions& options);

}  // namespace trireme
