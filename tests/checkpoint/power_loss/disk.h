#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tests/checkpoint/power_loss/operation_log.h"

namespace trireme::checkpoint {

// A file system that only keeps what was synced: a file's bytes by a sync of the file, its name
// by a sync of its folder. Everything since then is pending; a crash may take any of it, in any
// order, and of a write any of its blocks. Renames are whole or not at all.
class Disk {
 public:
  // `root` is where it is mounted and always there.
  explicit Disk(std::string root);

  void apply(const Operation& operation);

  // Decides about each of the pending changes, numbered from 0; of a write each block is one.
  using Survives = std::function<bool(std::size_t)>;
  // How many there are.
  std::size_t pending() const;
  // What is found after a crash, by path below the root; folders map to nothing. Where a write
  // was lost that had made the file longer, `lengths` says whether zeros stand in its place.
  using Found = std::map<std::string, std::optional<std::string>>;
  Found after_crash(const Survives& survives, bool lengths) const;

 private:
  static constexpr std::size_t kBlock = 4096;
  using Number = std::size_t;  // of a node
  // A file's new bytes or length, or new owners of a folder's names (no node: none).
  struct Change {
    std::uint64_t offset = 0;
    std::string bytes;
    std::optional<std::uint64_t> length;
    std::vector<std::pair<std::string, std::optional<Number>>> names;
  };
  struct Node {
    bool folder = false;
    std::string durable;
    std::map<std::string, Number> durable_names, names;  // names: as programs see them now
    std::vector<Change> pending;
  };

  static std::size_t parts_of(const Change& change);
  static void write(std::string& bytes, const Change& change, std::size_t block);
  std::optional<Number> find(const std::string& path) const;
  Number parent_of(const std::string& path) const;
  void name(Number folder, std::vector<std::pair<std::string, std::optional<Number>>> names);
  Number make(bool folder);
  // As they are after a crash; `number` is that of the node's first change.
  std::map<std::string, Number> names_of(Number folder, const Survives& survives,
                                         std::size_t number) const;
  std::string bytes_of(Number file, const Survives& survives, std::size_t number,
                       bool lengths) const;

  std::string root_;
  std::vector<Node> nodes_;
};

}  // namespace trireme::checkpoint
