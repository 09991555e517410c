#include "parallel/pipeline/schedule_file.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "model/base/error.h"
#include "model/base/file.h"
#include "parallel/pipeline/check.h"

namespace trireme {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Removes a leading number from `text`; false if there is none.
bool take_number(std::string_view& text, int& number) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc() && number < (1 << 20);
}

bool take_kind(std::string_view& text, Action::Kind& kind) {
  for (const Action::Kind candidate :
       {Action::Kind::kForward, Action::Kind::kBackward, Action::Kind::kBackwardInput,
        Action::Kind::kBackwardWeight}) {
    if (text.empty() || text.front() != letter_of(candidate)) continue;
    kind = candidate;
    text.remove_prefix(1);
    return true;
  }
  return false;
}

bool parse_action(std::string_view cell, Action& action) {
  return take_number(cell, action.stage) && take_kind(cell, action.kind) &&
         take_number(cell, action.micro_batch) && cell.empty();
}

// Calls visit(part) for each part of `text` between separators.
template <class Visit>
void for_each_part(std::string_view text, char separator, const Visit& visit) {
  while (true) {
    const std::size_t end = text.find(separator);
    visit(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

Schedule parse_schedule(const std::string& text, const std::string& name) {
  Schedule schedule;
  for_each_part(text, '\n', [&](std::string_view row) {
    std::vector<Action>& actions = schedule.ranks.emplace_back();
    int column = 0;
    for_each_part(row, ',', [&](std::string_view cell) {
      ++column;
      cell = trimmed(cell);
      if (cell.empty()) return;
      Action action;
      if (!parse_action(cell, action)) {
        throw ConfigError(say(name, ": row ", schedule.ranks.size(), ", cell ", column, ": \"",
                              cell.substr(0, 40),
                              "\" is not an action: write stage, one of F, B, I and W, and "
                              "micro-batch, such as 2F0"));
      }
      schedule.stages = std::max(schedule.stages, action.stage + 1);
      schedule.micro_batches = std::max(schedule.micro_batches, action.micro_batch + 1);
      actions.push_back(action);
    });
  });
  // The line break after the last row does not start a new row.
  while (!schedule.ranks.empty() && schedule.ranks.back().empty()) schedule.ranks.pop_back();
  return schedule;
}

Schedule read_schedule(const std::string& path, const PipelineShape& shape) {
  Schedule schedule = parse_schedule(read_text(path), path);
  const auto require_equal = [&](const char* what, std::size_t here, int asked, const char* key) {
    if (here == static_cast<std::size_t>(asked)) return;
    throw ConfigError(
        say(path, ": this schedule has ", here, " ", what, ", the config ", asked, " (", key, ")"));
  };
  require_equal("ranks", schedule.ranks.size(), shape.ranks, "parallelism.pipeline");
  require_equal("stages", static_cast<std::size_t>(schedule.stages), shape.stages(),
                "parallelism.pipeline x parallelism.virtual_stages");
  require_equal("micro-batches", static_cast<std::size_t>(schedule.micro_batches),
                shape.micro_batches, "of each data-parallel rank in a step");
  const std::string wrong = complaint(schedule);
  if (!wrong.empty()) throw ConfigError(say(path, ": ", wrong));
  return schedule;
}

}  // namespace trireme
