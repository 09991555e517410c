#include "trainer/config/complaints.h"

#include <algorithm>
#include <tuple>

#include "model/base/error.h"

namespace trireme {
namespace {

std::string line_of(const Complaints::Complaint& complaint, const std::string& source) {
  const Origin& origin = complaint.origin;
  const bool is_typed = origin.kind == Origin::Kind::kCommandLine;
  std::string line = is_typed ? "command line: --" : source + ":";
  if (!is_typed && origin.line > 0) line += say(origin.line, ":", origin.column, ":");
  if (!is_typed) line += " ";
  line += complaint.key;
  if (!complaint.value.empty()) line += " = " + complaint.value;
  return line + (complaint.key.empty() ? "" : ": ") + complaint.what;
}

// The file from top to bottom, then what is missing from it, then the command line.
auto order(const Complaints::Complaint& complaint) {
  const Origin& origin = complaint.origin;
  const int group = origin.kind == Origin::Kind::kCommandLine ? 2 : origin.line == 0 ? 1 : 0;
  return std::tuple(group, origin.line, origin.column);
}

}  // namespace

void Complaints::add(Complaint complaint) {
  complaints_.push_back(std::move(complaint));
}

std::string Complaints::text(const std::string& source) const {
  std::vector<Complaint> sorted = complaints_;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return order(a) < order(b); });
  if (sorted.size() == 1) return line_of(sorted.front(), source);
  std::string text = say(sorted.size(), " errors in the config");
  for (const Complaint& complaint : sorted) text += "\n  " + line_of(complaint, source);
  return text;
}

}  // namespace trireme
