#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trireme::checkpoint {

// What LEASE.json says of its holder.
struct LeaseHolder {
  std::string host, boot;  // `boot` tells this run of the kernel from every other, wherever
  std::int64_t pid = 0;
  std::string job;  // the batch job, or empty
  std::int64_t restarts = 0;
  std::int64_t incarnation = 0;
  double term_s = 0;  // not renewed for so long, it is dead
  std::string since, uuid;

  // This process, from now on.
  static LeaseHolder own();

  std::string words() const;
  std::string text() const;  // for the file
  // Whether it runs, or ran, where its file locks and processes can be seen.
  bool is_on_this_kernel() const;
  // Only there: whether its process has ended, though another of the run may live.
  bool process_has_ended() const;
};

// nullopt when the file is empty or damaged, as after a crash in the middle of taking it.
std::optional<LeaseHolder> read_lease_holder(int descriptor, const std::filesystem::path& path);

// Whether any process has a lock on the open file.
bool is_locked(int descriptor);

// The time stamp that the lease's renewals set, read anew from the file system; 0 without a file.
std::int64_t renewed_at_ns(const std::filesystem::path& path);

}  // namespace trireme::checkpoint
