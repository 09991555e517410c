#include "tests/checkpoint/power_loss/disk.h"

#include <algorithm>

#include "model/base/error.h"

namespace trireme::checkpoint {

using file_faults::Kind;

Disk::Disk(std::string root) : root_(std::move(root)) {
  make(true);
}

Disk::Number Disk::make(bool folder) {
  nodes_.emplace_back();
  nodes_.back().folder = folder;
  return nodes_.size() - 1;
}

std::optional<Disk::Number> Disk::find(const std::string& path) const {
  require(path.starts_with(root_), path, " is not below ", root_);
  Number at = 0;
  for (std::size_t from = root_.size() + 1; from < path.size();) {
    const std::size_t end = std::min(path.find('/', from), path.size());
    const auto found = nodes_[at].names.find(path.substr(from, end - from));
    if (found == nodes_[at].names.end()) return std::nullopt;
    at = found->second;
    from = end + 1;
  }
  return at;
}

Disk::Number Disk::parent_of(const std::string& path) const {
  const auto parent = find(path.substr(0, path.rfind('/')));
  require(parent.has_value(), path, ": the log has not made its folder");
  return *parent;
}

void Disk::name(Number folder, std::vector<std::pair<std::string, std::optional<Number>>> names) {
  for (const auto& [text, node] : names) {
    if (node)
      nodes_[folder].names[text] = *node;
    else
      nodes_[folder].names.erase(text);
  }
  Change change;
  change.names = std::move(names);
  nodes_[folder].pending.push_back(std::move(change));
}

void Disk::apply(const Operation& operation) {
  const std::string& path = operation.path;
  const std::string last = path.substr(path.rfind('/') + 1);
  switch (operation.kind) {
    case Kind::kCreate:
      return name(parent_of(path), {{last, make(false)}});
    case Kind::kMakeFolder:
      return name(parent_of(path), {{last, make(true)}});
    case Kind::kRemove:
      return name(parent_of(path), {{last, std::nullopt}});
    case Kind::kRename:
    case Kind::kExchange: {
      const Number folder = parent_of(path);
      const Number other_folder = parent_of(operation.other);
      const std::string other = operation.other.substr(operation.other.rfind('/') + 1);
      const auto from = find(path);
      require(from.has_value(), path, ": renamed before it was made");
      const auto to = operation.kind == Kind::kExchange ? find(operation.other) : std::nullopt;
      if (folder == other_folder) return name(folder, {{last, to}, {other, from}});
      // No file system promises that both folders change at once.
      name(folder, {{last, to}});
      return name(other_folder, {{other, from}});
    }
    case Kind::kSync: {
      const auto found = find(path);
      if (!found) return;  // removed meanwhile
      Node& node = nodes_[*found];
      for (const Change& change : node.pending) {
        for (std::size_t part = 0; part < parts_of(change); ++part) {
          write(node.durable, change, part);
        }
      }
      node.durable_names = node.names;
      node.pending.clear();
      return;
    }
    case Kind::kWrite:
    case Kind::kResize: {
      const auto found = find(path);
      if (!found) return;
      Change change;
      change.offset = operation.offset;
      change.bytes = operation.bytes;
      if (operation.kind == Kind::kResize) change.length = operation.size;
      nodes_[*found].pending.push_back(std::move(change));
      return;
    }
  }
}

std::size_t Disk::parts_of(const Change& change) {
  if (change.bytes.empty()) return 1;
  return (change.offset + change.bytes.size() - 1) / kBlock - change.offset / kBlock + 1;
}

// That part of the change that lies in its `block`-th block.
void Disk::write(std::string& bytes, const Change& change, std::size_t block) {
  if (change.length) bytes.resize(*change.length);
  if (change.bytes.empty()) return;
  const std::uint64_t first = (change.offset / kBlock + block) * kBlock;
  const std::uint64_t from = std::max<std::uint64_t>(first, change.offset);
  const std::uint64_t to =
      std::min<std::uint64_t>(first + kBlock, change.offset + change.bytes.size());
  if (bytes.size() < to) bytes.resize(to);
  bytes.replace(from, to - from, change.bytes, from - change.offset, to - from);
}

std::size_t Disk::pending() const {
  std::size_t sum = 0;
  for (const Node& node : nodes_) {
    for (const Change& change : node.pending) sum += parts_of(change);
  }
  return sum;
}

Disk::Found Disk::after_crash(const Survives& survives, bool lengths) const {
  std::vector<std::size_t> numbers;  // of each node's first change
  std::size_t number = 0;
  for (const Node& node : nodes_) {
    numbers.push_back(number);
    for (const Change& change : node.pending) number += parts_of(change);
  }
  Found found;
  const std::function<void(Number, const std::string&)> walk = [&](Number at,
                                                                   const std::string& path) {
    for (const auto& [text, node] : names_of(at, survives, numbers[at])) {
      const std::string below = path + text;
      if (nodes_[node].folder) {
        found[below] = std::nullopt;
        walk(node, below + "/");
      } else {
        found[below] = bytes_of(node, survives, numbers[node], lengths);
      }
    }
  };
  walk(0, "");
  return found;
}

std::map<std::string, Disk::Number> Disk::names_of(Number folder, const Survives& survives,
                                                   std::size_t number) const {
  std::map<std::string, Number> names = nodes_[folder].durable_names;
  for (const Change& change : nodes_[folder].pending) {
    if (!survives(number++)) continue;
    for (const auto& [text, node] : change.names) {
      if (node)
        names[text] = *node;
      else
        names.erase(text);
    }
  }
  return names;
}

std::string Disk::bytes_of(Number file, const Survives& survives, std::size_t number,
                           bool lengths) const {
  std::string bytes = nodes_[file].durable;
  for (const Change& change : nodes_[file].pending) {
    for (std::size_t part = 0; part < parts_of(change); ++part) {
      if (survives(number++)) write(bytes, change, part);
    }
    const std::size_t end = change.offset + change.bytes.size();
    if (lengths && !change.bytes.empty() && bytes.size() < end) bytes.resize(end);
  }
  return bytes;
}

}  // namespace trireme::checkpoint
