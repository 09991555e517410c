#include "trainer/tools/report/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "trainer/tools/report/chart_data.h"
#include "trainer/tools/report/config_values.h"
#include "trainer/tools/report/html.h"
#include "trainer/tools/report/summary.h"

namespace trireme {
namespace {

std::filesystem::path real_path(const std::filesystem::path& folder) {
  std::error_code why;
  const auto found = std::filesystem::weakly_canonical(folder, why);
  return why ? folder : found;
}

std::string head_html(const std::string& first, const std::vector<std::string>& names) {
  std::string cells;
  for (std::size_t run = 0; run < names.size(); ++run) {
    cells += fmt::format("<th><i class=\"run-{}\"></i>{}</th>", run % kRunColors,
                         html_escape(names[run]));
  }
  return fmt::format("<thead><tr><th>{}</th>{}</tr></thead>", first, cells);
}

std::string compared_row_html(const std::string& name, const std::vector<std::string>& values) {
  std::string cells;
  for (const std::string& value : values) cells += fmt::format("<td>{}</td>", html_escape(value));
  return fmt::format("<tr><td class=\"event\">{}</td>{}</tr>\n", html_escape(name), cells);
}

// Table of the summary numbers, one row per label in order of first appearance.
std::string numbers_html(const std::vector<RunData>& runs) {
  struct Row {
    std::string label;
    std::vector<std::string> values;
  };
  std::vector<Row> rows{{"state", std::vector<std::string>(runs.size())}};
  for (std::size_t run = 0; run < runs.size(); ++run) {
    rows.front().values[run] = run_state(runs[run]).text;
    for (const Tile& tile : summary_tiles(runs[run])) {
      std::string label = tile.label.substr(0, tile.label.find(','));
      const std::string where = tile.label.substr(label.size());
      if (label.starts_with("steps of ")) label = "steps";
      if (label == "resume") label = "resumes";
      auto row = std::find_if(rows.begin(), rows.end(),
                              [&](const Row& one) { return one.label == label; });
      if (row == rows.end()) {
        row = rows.insert(row, Row{label, std::vector<std::string>(runs.size())});
      }
      row->values[run] =
          where.empty() ? tile.value : fmt::format("{} ({})", tile.value, where.substr(2));
    }
  }
  std::string html;
  for (const Row& row : rows) html += compared_row_html(row.label, row.values);
  return html;
}

}  // namespace

std::vector<std::string> run_names(const std::vector<RunData>& runs) {
  std::vector<std::string> names(runs.size());
  std::vector<std::filesystem::path> rest;
  for (const RunData& run : runs) rest.push_back(real_path(run.folder));
  constexpr int kMostParts = 4;
  for (int part = 0; part < kMostParts; ++part) {
    for (std::size_t run = 0; run < runs.size(); ++run) {
      const std::string name = rest[run].filename().string();
      if (name.empty()) continue;  // the root
      names[run] = names[run].empty() ? name : name + "/" + names[run];
      rest[run] = rest[run].parent_path();
    }
    if (std::set(names.begin(), names.end()).size() == names.size()) break;
  }
  return names;
}

std::string comparison_html(const std::vector<RunData>& runs) {
  const std::vector<std::string> names = run_names(runs);
  std::vector<std::string_view> texts;
  for (const RunData& run : runs) texts.emplace_back(run.config_text);
  std::string differences;
  for (const ConfigDifference& one : config_differences(texts)) {
    differences += compared_row_html(one.key, one.values);
  }
  if (differences.empty()) {
    differences = fmt::format("<tr><td colspan=\"{}\">none</td></tr>\n", runs.size() + 1);
  }
  return fmt::format(
      "<section><h2>Comparison of runs</h2>\n<div class=\"card whole\"><table "
      "class=\"runs\">{}<tbody>\n"
      "{}</tbody></table></div></section>\n<section><h2>Config differences</h2>\n"
      "<div class=\"card whole\"><table "
      "class=\"runs\">{}<tbody>\n{}</tbody></table></div></section>",
      head_html("", names), numbers_html(runs), head_html("key", names), differences);
}

}  // namespace trireme
