#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace trireme {

// Ranks that a machine has room for.
struct HostPlace {
  std::string host;
  int slots = 0;
  bool operator==(const HostPlace&) const = default;
};

int slots_of(const std::vector<HostPlace>& places);
// The part of `places` that so many ranks take.
std::vector<HostPlace> first_slots(const std::vector<HostPlace>& places, int ranks);
// Whether `places` have not all of `needed`.
bool lack(const std::vector<HostPlace>& places, const std::vector<HostPlace>& needed);

// The machines a supervisor may start ranks on, and how it is done there. One of these is
// chosen for the life of the supervisor.
class Hosts {
 public:
  Hosts() = default;
  virtual ~Hosts() = default;
  Hosts(const Hosts&) = delete;
  Hosts& operator=(const Hosts&) = delete;

  // Those that may be used now, in an order that stays the same. Looks anew; called several
  // times a second. Throws ConfigError, EnvironmentError.
  virtual std::vector<HostPlace> usable() = 0;
  // The words that start `ranks` processes of a program, its own words not included: the
  // first slots of `places`. `names`: variables of the environment they all must have.
  virtual std::vector<std::string> launcher(int ranks, const std::vector<HostPlace>& places,
                                            const std::vector<std::string>& names) const = 0;
  // The place of a rank that launcher() has started on `places`; empty where that cannot be told.
  // `reported`: what its machine calls itself.
  virtual std::string host_of(int rank, const std::string& reported,
                              const std::vector<HostPlace>& places) const;
  // Whether somebody has stopped (SIGSTOP) every rank of the run, as far as can be told: none is
  // left that could miss another.
  virtual bool all_ranks_are_stopped(const std::filesystem::path& run_dir);
  // After the launcher has ended or was killed: nothing of the incarnation is left on any
  // usable host when it returns. `mark`: a word of its processes' environment.
  virtual void end_everywhere(const std::string& mark) = 0;
};

// This machine by mpirun, with as many ranks as are wanted.
class ThisHost : public Hosts {
 public:
  explicit ThisHost(int ranks) : ranks_(ranks) {}
  std::vector<HostPlace> usable() override;
  std::vector<std::string> launcher(int ranks, const std::vector<HostPlace>& places,
                                    const std::vector<std::string>& names) const override;
  void end_everywhere(const std::string& mark) override;

 private:
  int ranks_;
};

// The hosts of a file, by mpirun: a line is "name slots=N" as Open MPI has them (N is 1 where
// it is not said), # begins a comment. The file may change while the run goes on: the run
// then goes on with the ranks it has room for.
class HostFile : public Hosts {
 public:
  explicit HostFile(std::filesystem::path path);
  std::vector<HostPlace> usable() override;
  std::vector<std::string> launcher(int ranks, const std::vector<HostPlace>& places,
                                    const std::vector<std::string>& names) const override;
  // On other hosts mpirun's own daemons do it.
  void end_everywhere(const std::string& mark) override;

 private:
  std::filesystem::path path_;
};

// Throws ConfigError naming `source` and the line.
std::vector<HostPlace> parse_host_file(const std::string& text, const std::string& source);

}  // namespace trireme
