#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "model/base/human.h"
#include "model/base/json.h"
#include "trainer/tools/report/sections.h"

namespace trireme {
namespace {

constexpr int kShades = 8;        // on each side of the mean
constexpr double kDoublings = 2;  // from the mean to the last shade

// Sizes in the units of the drawing.
constexpr double kWidth = 960, kHeight = 480, kLeft = 44, kBottom = 18;
constexpr double kWidestCell = 44, kHighestCell = 20, kLabelWidth = 28, kLabelHeight = 12;

struct LoadTable {
  std::vector<std::int64_t> layers = {};
  std::vector<std::vector<double>> loads = {};  // [layers][experts], over the layer's mean
  std::size_t experts() const { return loads.front().size(); }
};

std::vector<double> over_mean(const std::vector<std::int64_t>& counts) {
  const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
  std::vector<double> loads(counts.size(), 0.0);
  for (std::size_t e = 0; e < counts.size() && all > 0; ++e) {
    loads[e] = static_cast<double>(counts[e]) * static_cast<double>(counts.size()) / all;
  }
  return loads;
}

// Empty if it is not a list of counts.
std::vector<std::int64_t> counts_in(const nlohmann::ordered_json& list) {
  std::vector<std::int64_t> counts;
  if (!list.is_array()) return counts;
  for (const auto& value : list) {
    const auto count = json_as<std::int64_t>(value);
    if (!count || *count < 0) return {};
    counts.push_back(*count);
  }
  return counts;
}

// Nothing if it is not what a run writes.
std::optional<LoadTable> load_table(const nlohmann::ordered_json& load) {
  const auto layers = load.find("layers"), counts = load.find("counts");
  if (layers == load.end() || counts == load.end() || !counts->is_array()) return std::nullopt;
  LoadTable table{.layers = counts_in(*layers)};
  for (const auto& of_layer : *counts) table.loads.push_back(over_mean(counts_in(of_layer)));
  if (table.loads.empty() || table.loads.size() != table.layers.size()) return std::nullopt;
  const bool is_full = std::ranges::all_of(table.loads, [&](const std::vector<double>& loads) {
    return !loads.empty() && loads.size() == table.experts();
  });
  return is_full ? std::optional(table) : std::nullopt;
}

// From -kShades to kShades; 0 is the mean.
int shade_of(double load) {
  const double doublings = load > 0 ? std::log2(load) : -kDoublings;
  return static_cast<int>(std::lround(kShades * std::clamp(doublings / kDoublings, -1.0, 1.0)));
}

class HeatMap {
 public:
  explicit HeatMap(const LoadTable& table)
      : table_(table),
        cell_width_(std::min(kWidestCell, kWidth / static_cast<double>(table.experts()))),
        cell_height_(std::min(kHighestCell, kHeight / static_cast<double>(table.layers.size()))),
        width_(cell_width_ * static_cast<double>(table.experts())),
        height_(cell_height_ * static_cast<double>(table.layers.size())) {}

  std::string svg() const {
    return fmt::format(
        "<svg role=\"img\" aria-label=\"Load of each expert of each layer\" viewBox=\"0 0 {0:g} "
        "{1:g}\" style=\"max-width:{0:g}px\">\n{2}{3}</svg>",
        kLeft + width_, height_ + kBottom, cells(), labels());
  }

 private:
  // Of one shade, one path; of few cells, one each, with its numbers.
  std::string cells() const {
    constexpr std::size_t kMostWithNumbers = 4096;
    const bool with_numbers = table_.layers.size() * table_.experts() <= kMostWithNumbers;
    std::vector<std::string> shades(2 * kShades + 1);
    for (std::size_t row = 0; row < table_.layers.size(); ++row) {
      for (std::size_t expert = 0; expert < table_.experts(); ++expert) {
        const double load = table_.loads[row][expert];
        std::string& shade = shades[static_cast<std::size_t>(shade_of(load) + kShades)];
        const std::string cell = fmt::format("M{} {}h1v1h-1z", expert, row);
        shade += with_numbers ? fmt::format(
                                    "<path d=\"{}\"><title>layer {}, expert {}: {:.2f} "
                                    "times the mean</title></path>",
                                    cell, table_.layers[row], expert, load)
                              : cell;
      }
    }
    std::string out = fmt::format("<g transform=\"translate({:g} 0) scale({:.6g} {:.6g})\">\n",
                                  kLeft, cell_width_, cell_height_);
    for (int shade = -kShades; shade <= kShades; ++shade) {
      const std::string& cells = shades[static_cast<std::size_t>(shade + kShades)];
      if (cells.empty()) continue;
      out +=
          fmt::format("<g class=\"{}\" fill-opacity=\"{:g}\">{}</g>\n",
                      shade < 0 ? "below" : "above", std::abs(static_cast<double>(shade)) / kShades,
                      with_numbers ? cells : fmt::format("<path d=\"{}\"/>", cells));
    }
    return out + "</g>\n";
  }

  // As many as fit.
  std::string labels() const {
    std::string out;
    const auto every = [](double room, double cell) {
      return static_cast<std::size_t>(std::ceil(std::max(1.0, room / cell)));
    };
    for (std::size_t row = 0; row < table_.layers.size();
         row += every(kLabelHeight, cell_height_)) {
      out += fmt::format("<text x=\"{:g}\" y=\"{:.6g}\" text-anchor=\"end\">{}</text>\n", kLeft - 6,
                         cell_height_ * (static_cast<double>(row) + 0.5) + 4, table_.layers[row]);
    }
    for (std::size_t expert = 0; expert < table_.experts();
         expert += every(kLabelWidth, cell_width_)) {
      out += fmt::format("<text x=\"{:.6g}\" y=\"{:g}\" text-anchor=\"middle\">{}</text>\n",
                         kLeft + cell_width_ * (static_cast<double>(expert) + 0.5), height_ + 14,
                         expert);
    }
    return out;
  }

  const LoadTable& table_;
  const double cell_width_, cell_height_, width_, height_;
};

}  // namespace

std::string experts_html(const RunData& run) {
  if (!run.expert_load) return "";
  const auto table = load_table(run.expert_load->load);
  if (!table) return "";
  return fmt::format(
      "<section><h2>Load of the experts at step {}</h2>\n<figure class=\"chart experts\">{}"
      "</figure>\n<p class=\"note\">A row is a layer, a column an expert. Orange: chosen "
      "more often than the mean of the layer; blue: less often; darkest: {:g} times or "
      "more.</p></section>",
      grouped(run.expert_load->step), HeatMap(*table).svg(), std::exp2(kDoublings));
}

}  // namespace trireme
