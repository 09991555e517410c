#include "tests/trainer/tools/plan/first_errors.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "model/base/error.h"

namespace trireme::published {

namespace {

FirstErrors record_of(const nlohmann::json& json) {
  FirstErrors record{
      .of = json.at("of"), .date = json.at("date"), .commit = json.at("commit"), .rows = {}};
  for (const nlohmann::json& row : json.at("rows")) {
    record.rows.push_back({.number = row.at("number"),
                           .source = row.at("source"),
                           .model = row.at("model"),
                           .gpu = row.at("gpu"),
                           .format = row.at("format"),
                           .layout = row.at("layout"),
                           .published = row.at("published_s"),
                           .predicted = row.at("predicted_s"),
                           .error = row.at("error_percent").get<double>() / 100});
  }
  return record;
}

}  // namespace

std::vector<FirstErrors> read_first_errors(const std::filesystem::path& path) {
  std::ifstream file(path);
  require(file.good(), "cannot read ", path.string());
  std::vector<FirstErrors> records;
  for (const nlohmann::json& record : nlohmann::json::parse(file)) {
    records.push_back(record_of(record));
  }
  return records;
}

}  // namespace trireme::published
