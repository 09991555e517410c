#include "trainer/supervise/launch/hosts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>
#include <thread>

#include "model/base/error.h"
#include "model/base/file.h"
#include "trainer/supervise/launch/run_follower.h"
#include "trainer/supervise/node_agent/own_processes.h"

namespace trireme {
namespace {

std::vector<std::string> mpirun(int ranks, const std::vector<std::string>& names) {
  std::vector<std::string> words{"mpirun", "-n", std::to_string(ranks)};
  // Open MPI 4.1 waits two seconds after its only rank was killed.
  if (ranks == 1) words.insert(words.end(), {"--mca", "odls_base_sigkill_timeout", "0"});
  for (const std::string& name : names) words.insert(words.end(), {"-x", name});
  return words;
}

int parse_slots(std::string_view word, const std::string& where) {
  int slots = 0;
  const auto [end, bad] = std::from_chars(word.data(), word.data() + word.size(), slots);
  if (bad != std::errc() || end != word.data() + word.size() || slots < 0 || slots > 1 << 20) {
    throw ConfigError(say(where, ": slots=", word, " is not a valid number of ranks"));
  }
  return slots;
}

}  // namespace

int slots_of(const std::vector<HostSlots>& places) {
  int slots = 0;
  for (const HostSlots& place : places) slots += place.slots;
  return slots;
}

std::vector<HostSlots> first_slots(const std::vector<HostSlots>& places, int ranks) {
  std::vector<HostSlots> taken;
  for (const HostSlots& place : places) {
    const int slots = std::min(place.slots, ranks);
    if (slots > 0) taken.push_back({place.host, slots});
    ranks -= slots;
  }
  return taken;
}

bool lacks(const std::vector<HostSlots>& places, const std::vector<HostSlots>& needed) {
  return std::any_of(needed.begin(), needed.end(), [&](const HostSlots& one) {
    return std::none_of(places.begin(), places.end(), [&](const HostSlots& there) {
      return there.host == one.host && there.slots >= one.slots;
    });
  });
}

// mpirun chooses its own rank order, so match by host name, with or without the domain.
std::string Hosts::host_of(int /*rank*/, const std::string& reported,
                           const std::vector<HostSlots>& places) const {
  const auto short_name = [](const std::string& name) { return name.substr(0, name.find('.')); };
  for (const HostSlots& place : places) {
    if (place.host == reported) return place.host;
  }
  for (const HostSlots& place : places) {
    if (short_name(place.host) == short_name(reported)) return place.host;
  }
  return "";
}

bool Hosts::all_ranks_are_stopped(const std::filesystem::path& run_dir) {
  return all_ranks_stopped(run_dir);
}

std::vector<HostSlots> ThisHost::usable() {
  return {{"localhost", ranks_}};
}

std::vector<std::string> ThisHost::launcher(int ranks, const std::vector<HostSlots>& /*places*/,
                                            const std::vector<std::string>& names) const {
  std::vector<std::string> words = mpirun(ranks, names);
  // Oversubscribed ranks must neither be bound to one core each nor spin.
  if (ranks > static_cast<int>(std::thread::hardware_concurrency())) {
    words.insert(words.end(), {"--oversubscribe", "--bind-to", "none"});
  }
  return words;
}

void ThisHost::end_everywhere(const std::string& mark) {
  end_processes(mark);
}

HostFile::HostFile(std::filesystem::path path) : path_(std::move(path)) {
  usable();
}

std::vector<HostSlots> HostFile::usable() {
  return parse_host_file(read_text(path_, 1u << 20), path_.string());
}

std::vector<std::string> HostFile::launcher(int ranks, const std::vector<HostSlots>& places,
                                            const std::vector<std::string>& names) const {
  std::vector<std::string> words = mpirun(ranks, names);
  std::string list;
  for (const HostSlots& place : places) {
    if (place.slots > 0)
      list += fmt::format("{}{}:{}", list.empty() ? "" : ",", place.host, place.slots);
  }
  words.insert(words.end(), {"--host", list});
  if (places.size() == 1 && places.front().host == "localhost" &&
      ranks > static_cast<int>(std::thread::hardware_concurrency())) {
    words.insert(words.end(), {"--oversubscribe", "--bind-to", "none"});
  }
  return words;
}

void HostFile::end_everywhere(const std::string& mark) {
  end_processes(mark);
}

std::vector<HostSlots> parse_host_file(const std::string& text, const std::string& source) {
  std::vector<HostSlots> places;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    const std::string where = say(source, ":", number);
    std::istringstream words(line.substr(0, line.find('#')));
    HostSlots place{.host = "", .slots = 1};
    if (!(words >> place.host)) continue;
    for (std::string word; words >> word;) {
      if (!word.starts_with("slots=")) {
        throw ConfigError(
            say(where, ": unknown word \"", word, "\"; expected \"", place.host, " slots=N\""));
      }
      place.slots = parse_slots(std::string_view(word).substr(6), where);
    }
    for (const HostSlots& other : places) {
      if (other.host == place.host)
        throw ConfigError(say(where, ": ", place.host, " is listed twice"));
    }
    places.push_back(std::move(place));
  }
  return places;
}

}  // namespace trireme
