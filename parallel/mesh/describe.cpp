#include <algorithm>
#include <set>

#include "model/base/error.h"
#include "parallel/mesh/mesh.h"

namespace trireme {
namespace {

constexpr std::array kDimensions{Axis::kPipeline, Axis::kDataReplicate, Axis::kDataShard,
                                 Axis::kContext, Axis::kTensor};

// Formats ranges of consecutive numbers: "0-3,8".
std::string runs(const std::set<int>& numbers) {
  std::string text;
  for (auto first = numbers.begin(); first != numbers.end();) {
    auto last = first;
    while (std::next(last) != numbers.end() && *std::next(last) == *last + 1) ++last;
    text += say(text.empty() ? "" : ",", *first);
    if (last != first) text += say("-", *last);
    first = std::next(last);
  }
  return text;
}

// In order of first appearance.
std::vector<std::string> distinct(const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  for (const std::string& host : hosts) {
    if (std::find(names.begin(), names.end(), host) == names.end()) names.push_back(host);
  }
  return names;
}

std::string counted(std::size_t n, const char* what) {
  return say(n, " ", what, n == 1 ? "" : "s");
}

}  // namespace

std::string Mesh::describe(const std::vector<std::string>& hosts) const {
  require(hosts.size() == static_cast<std::size_t>(size_), "hosts of ", hosts.size(),
          " ranks for a mesh of ", size_);
  const std::vector<std::string> names = distinct(hosts);
  std::string axes;
  for (const Axis axis : kDimensions) {
    if (extent(axis) > 1)
      axes += say(axes.empty() ? ": " : " x ", name_of(axis), " ", extent(axis));
  }
  std::string text =
      say("mesh of ", counted(hosts.size(), "rank"), " on ", counted(names.size(), "host"), axes);
  if (extent(Axis::kExpert) > 1) {
    text += say("; experts divided among ", extent(Axis::kExpert), " of the ", token_ranks(),
                " data ranks of a stage");
  }
  for (const std::string& name : names) {
    std::set<int> ranks;
    for (int r = 0; r < size_; ++r) {
      if (hosts[static_cast<std::size_t>(r)] == name) ranks.insert(r);
    }
    text += say("\n  ", name, ": ", ranks.size() == 1 ? "rank " : "ranks ", runs(ranks));
    for (const Axis axis : kDimensions) {
      if (extent(axis) == 1) continue;
      std::set<int> places;
      for (const int rank : ranks) places.insert(coordinate(rank, axis));
      text += say(", ", name_of(axis), " ", runs(places));
    }
  }
  return text;
}

std::string Mesh::warning(const std::vector<std::string>& hosts) const {
  require(hosts.size() == static_cast<std::size_t>(size_), "hosts of ", hosts.size(),
          " ranks for a mesh of ", size_);
  int spanning = 0;
  std::string example;
  for (int rank = 0; rank < size_; ++rank) {
    if (coordinate(rank, Axis::kTensor) != 0) continue;
    const std::vector<int> group = this->group(rank, {Axis::kTensor});
    std::vector<std::string> of_group;
    for (const int member : group) of_group.push_back(hosts[static_cast<std::size_t>(member)]);
    const std::vector<std::string> names = distinct(of_group);
    if (names.size() == 1 || ++spanning > 1) continue;
    example = say("ranks ", runs({group.begin(), group.end()}), " on ", names[0], " and ", names[1],
                  names.size() > 2 ? " and more" : "");
  }
  if (spanning == 0) return "";
  return say(
      spanning, " of ", size_ / extent(Axis::kTensor),
      " tensor-parallel groups span hosts (such as ", example,
      "), so every layer waits for the network; make parallelism.tensor = ", extent(Axis::kTensor),
      " divide the number of ranks per host, with ranks placed in order");
}

}  // namespace trireme
