#include "trainer/tools/verify/cause.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace trireme::verify {
namespace {

// Actual and expected rows of the grid.
class Rows {
 public:
  Rows(const Evidence& evidence, const std::vector<double>& values)
      : evidence_(evidence), values_(values) {}

  std::int64_t count() const { return evidence_.rows; }
  std::int64_t columns() const { return evidence_.columns; }
  // Whether actual row `at` equals expected row `from`.
  bool same(std::int64_t at, std::int64_t from) const {
    for (std::int64_t c = 0; c < evidence_.columns; ++c) {
      const double value = values_[at * evidence_.columns + c];
      const double expected = evidence_.expected[from * evidence_.columns + c];
      if (!(std::fabs(value - expected) <= evidence_.tolerance)) return false;
    }
    return true;
  }
  bool is_zero(std::int64_t row) const {
    for (std::int64_t c = 0; c < evidence_.columns; ++c) {
      const double expected = evidence_.expected[row * evidence_.columns + c];
      if (std::fabs(expected) > evidence_.tolerance) return false;
    }
    return true;
  }

 private:
  const Evidence& evidence_;
  const std::vector<double>& values_;
};

std::optional<Cause> moved_parts(const Rows& rows, std::int64_t of_part) {
  const std::int64_t parts = rows.count() / of_part;
  if (of_part < 1 || parts < 2 || rows.count() % of_part != 0) return std::nullopt;
  const auto same = [&](std::int64_t at, std::int64_t from) {
    for (std::int64_t r = 0; r < of_part; ++r) {
      if (!rows.same(at * of_part + r, from * of_part + r)) return false;
    }
    return true;
  };
  std::string moves;
  for (std::int64_t at = 0; at < parts; ++at) {
    if (same(at, at)) continue;
    std::int64_t from = 0;
    while (from < parts && !same(at, from)) ++from;
    if (from == parts) return std::nullopt;
    moves += fmt::format("{}{} contains head {}", moves.empty() ? "" : ", ", at, from);
  }
  if (moves.empty()) return std::nullopt;
  return Cause{
      "swapped-parts",
      fmt::format("heads are permuted ({} heads of {} rows): position {}; they were split or "
                  "read in a wrong order",
                  parts, of_part, moves)};
}

// Zero rows are equal by chance and do not count.
std::optional<Cause> shifted(const Rows& rows) {
  constexpr std::int64_t kFarthest = 64;
  const std::int64_t enough = rows.columns() > 1 ? 2 : 8;
  for (std::int64_t by = -kFarthest; by <= kFarthest; ++by) {
    if (by == 0) continue;
    std::int64_t moved = 0, wrong = 0, unexplained = 0;
    for (std::int64_t row = 0; row < rows.count(); ++row) {
      if (rows.same(row, row)) continue;
      ++wrong;
      const std::int64_t from = row + by;
      const bool inside = from >= 0 && from < rows.count();
      if (inside && rows.same(row, from)) {
        moved += !rows.is_zero(from);
      } else {
        ++unexplained;
      }
    }
    if (moved >= enough && 4 * unexplained <= wrong) {
      return Cause{
          "shifted-rows",
          fmt::format("{} wrong rows equal the expected row {} {}: a shard begins at a wrong "
                      "offset",
                      moved, std::abs(by), by > 0 ? "further on" : "earlier")};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Cause> moved_rows(const Evidence& evidence, const std::vector<double>& values) {
  if (!evidence.all_rows) return std::nullopt;
  const Rows rows(evidence, values);
  if (evidence.part_rows > 1) {
    if (auto found = moved_parts(rows, evidence.part_rows)) return found;
  }
  return shifted(rows);
}

}  // namespace trireme::verify
