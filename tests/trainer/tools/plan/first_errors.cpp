#include "tests/trainer/tools/plan/first_errors.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "model/base/error.h"

namespace trireme::published {

FirstErrors read_first_errors(const std::filesystem::path& path) {
  std::ifstream file(path);
  require(file.good(), "cannot read ", path.string());
  const auto json = nlohmann::json::parse(file);
  FirstErrors all{.date = json.at("date"), .commit = json.at("commit"), .rows = {}};
  for (const nlohmann::json& row : json.at("rows")) {
    all.rows.push_back({.number = row.at("number"),
                        .source = row.at("source"),
                        .model = row.at("model"),
                        .gpu = row.at("gpu"),
                        .format = row.at("format"),
                        .layout = row.at("layout"),
                        .published = row.at("published_s"),
                        .predicted = row.at("predicted_s"),
                        .error = row.at("error_percent").get<double>() / 100});
  }
  return all;
}

}  // namespace trireme::published
