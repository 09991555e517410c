#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace trireme::published {

// An error that was computed when the model, all numbers and the row itself had been committed, as
// it was recorded then. Nobody changes the record: later models have seen these rows.
struct FirstError {
  int number = 0;  // Run::number
  std::string source, model, gpu, format, layout;
  double published = 0, predicted = 0;  // seconds
  double error = 0;                     // predicted / published - 1
};
struct FirstErrors {
  std::string of;            // the sources
  std::string date, commit;  // of the record
  std::vector<FirstError> rows;
};
std::vector<FirstErrors> read_first_errors(const std::filesystem::path& path);

}  // namespace trireme::published
