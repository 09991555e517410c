#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// A host and the number of ranks it can run.
struct HostSlots {
  std::string host;
  int slots = 0;
  bool operator==(const HostSlots&) const = default;
};

int slots_of(const std::vector<HostSlots>& places);
// The slots that `ranks` ranks use, in the order of `places`.
std::vector<HostSlots> first_slots(const std::vector<HostSlots>& places, int ranks);
// Whether `places` lacks some of the slots in `needed`.
bool lacks(const std::vector<HostSlots>& places, const std::vector<HostSlots>& needed);

// The hosts a supervisor can start ranks on, and the launcher that starts them. The supervisor uses
// one instance for its whole lifetime.
class Hosts {
 public:
  Hosts() = default;
  virtual ~Hosts() = default;
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  // The hosts available now, in a stable order. Refreshed on each call, several times per second.
  // Throws ConfigError, EnvironmentError.
  virtual std::vector<HostSlots> usable() = 0;
  // The command prefix that starts `ranks` processes of a program on the first slots of `places`;
  // the program's own command line follows it. `names`: environment variables to forward to every
  // rank.
  virtual std::vector<std::string> launcher(int ranks, const std::vector<HostSlots>& places,
                                            const std::vector<std::string>& names) const = 0;
  // The host of a rank started by launcher() on `places`; empty if it is unknown. `reported`: the
  // host name reported by the rank.
  virtual std::string host_of(int rank, const std::string& reported,
                              const std::vector<HostSlots>& places) const;
  // Whether every rank of the run is stopped (SIGSTOP), as far as this process can tell. Then no
  // rank is left to detect the stall.
  virtual bool all_ranks_are_stopped(const std::filesystem::path& run_dir);
  // Called after the launcher exited or was killed: kills what is left of the incarnation on every
  // available host before returning. `mark`: environment variable that its processes have,
  // "NAME=value".
  virtual void end_everywhere(const std::string& mark) = 0;
};

// The local host: mpirun with `ranks` ranks.
class ThisHost : public Hosts {
 public:
  explicit ThisHost(int ranks) : ranks_(ranks) {}
  std::vector<HostSlots> usable() override;
  std::vector<std::string> launcher(int ranks, const std::vector<HostSlots>& places,
                                    const std::vector<std::string>& names) const override;
  void end_everywhere(const std::string& mark) override;

 private:
  int ranks_;
};

// The hosts of an mpirun hostfile: one "name slots=N" per line (N defaults to 1), # starts a
// comment. If the file changes during the run, the run is resized to the slots it lists.
class HostFile : public Hosts {
 public:
  explicit HostFile(std::filesystem::path path);
  std::vector<HostSlots> usable() override;
  std::vector<std::string> launcher(int ranks, const std::vector<HostSlots>& places,
                                    const std::vector<std::string>& names) const override;
  // Kills the local processes; on remote hosts mpirun's daemons do it.
  void end_everywhere(const std::string& mark) override;

 private:
  std::filesystem::path path_;
};

// Throws ConfigError with `source` and the line number.
std::vector<HostSlots> parse_host_file(const std::string& text, const std::string& source);

}  // namespace trireme
