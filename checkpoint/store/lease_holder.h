#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace trireme::checkpoint {

// The holder as recorded in LEASE.json.
struct LeaseHolder {
  std::string host, boot;  // boot id: unique per boot of any machine
  std::int64_t pid = 0;
  std::string job;  // batch job; empty: none
  std::int64_t restarts = 0;
  std::int64_t incarnation = 0;
  double term_s = 0;  // dead if not renewed for this long
  std::string since, uuid;

  // Describes this process.
  static LeaseHolder own();

  std::string words() const;
  std::string text() const;  // contents of the file
  // Whether the holder ran on this kernel, so that its file locks and processes are visible.
  bool is_on_this_kernel() const;
  // Valid only on that kernel: whether its process has ended; other processes of the run may be
  // alive.
  bool process_has_ended() const;
};

// Nullopt if the file is empty or damaged, as after a crash during acquisition.
std::optional<LeaseHolder> read_lease_holder(int descriptor);

// Whether any process has locked the open file.
bool is_locked(int descriptor);

// The timestamp set by renewals, bypassing caches of the file system; 0 without a file.
std::int64_t renewed_at_ns(const std::filesystem::path& path);

}  // namespace trireme::checkpoint
