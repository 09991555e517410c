#include "trainer/supervise/launch/slurm_allocation.h"

#include <sys/wait.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <sstream>

#include "model/base/error.h"

namespace trireme {
namespace {

constexpr const char* kNodeList = "SLURM_JOB_NODELIST";
constexpr int kMostTasks = 1 << 20;

// Standard output of a shell command.
std::string output_of(const std::string& command) {
  std::string answer;
  std::array<char, 4096> piece{};
  FILE* const pipe = ::popen(command.c_str(), "re");
  if (!pipe) throw EnvironmentError(say("cannot run ", command));
  while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), pipe)) {
    answer.append(piece.data(), got);
  }
  const int status = ::pclose(pipe);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw EnvironmentError(say(command, " failed"));
  return answer;
}

int number_in(const std::string& text, std::string_view digits) {
  int number = 0;
  const auto [end, bad] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (bad != std::errc() || end != digits.data() + digits.size() || number < 1 ||
      number > kMostTasks) {
    throw EnvironmentError(say("SLURM_TASKS_PER_NODE=", text, " cannot be parsed"));
  }
  return number;
}

// The words of scontrol's output that start with `beginning`, without it.
std::vector<std::string> values_of(const std::string& answer, const std::string& beginning) {
  std::istringstream words(answer);
  std::vector<std::string> values;
  for (std::string word; words >> word;) {
    if (word.starts_with(beginning)) values.push_back(word.substr(beginning.size()));
  }
  return values;
}

}  // namespace

bool is_in_slurm_allocation(const Variables& variables) {
  return variables("SLURM_JOB_ID").has_value() && variables(kNodeList).has_value();
}

SlurmAllocation read_slurm_allocation(const Variables& variables) {
  const std::string list = variables(kNodeList).value_or("");
  if (list.empty() || list.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                             "0123456789-_.,[]") != std::string::npos) {
    throw EnvironmentError(say(kNodeList, "=", list, " is not a list of nodes"));
  }
  SlurmAllocation found;
  const std::string names = output_of("scontrol show hostnames '" + list + "'");
  for (const std::string& name : values_of(names, "")) found.places.push_back({name, 1});
  const std::string nodes = output_of("scontrol --oneliner show node '" + list + "'");
  found.addresses = values_of(nodes, "NodeAddr=");
  if (const auto tasks = variables("SLURM_TASKS_PER_NODE")) {
    const std::vector<int> counts = parse_tasks_per_node(*tasks);
    if (counts.size() != found.places.size()) {
      throw EnvironmentError(
          say("SLURM_TASKS_PER_NODE=", *tasks, " does not match ", kNodeList, "=", list));
    }
    for (std::size_t i = 0; i < counts.size(); ++i) found.places[i].slots = counts[i];
  }
  found.cpus_per_task = variables("SLURM_CPUS_PER_TASK").value_or("");
  return found;
}

std::vector<int> parse_tasks_per_node(const std::string& text) {
  std::vector<int> counts;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const std::string_view whole = part;
    const std::size_t bracket = part.find("(x");
    int times = 1;
    if (bracket != std::string::npos) {
      const bool is_closed = part.ends_with(')');
      times =
          number_in(text, is_closed ? whole.substr(bracket + 2, part.size() - bracket - 3) : "");
    }
    const int tasks = number_in(text, whole.substr(0, bracket));
    counts.insert(counts.end(), static_cast<std::size_t>(times), tasks);
  }
  if (counts.empty()) number_in(text, "");
  return counts;
}

}  // namespace trireme
