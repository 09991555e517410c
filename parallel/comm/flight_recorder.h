#pragma once
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/flight_recorder_reader.h"

namespace trireme {

// The flight recorder of a rank: its position in the step and every communicator call. The record
// is in anonymous memory until keep_in() moves it to a file, whose pages survive any end of the
// process. A record costs tens of nanoseconds and no system call. One thread writes at a time; any
// process may read concurrently (FlightRecorderReader).
class FlightRecorder {
 public:
  using Phase = flight::Phase;
  using Operation = flight::Operation;

  FlightRecorder();
  FlightRecorder(const FlightRecorder&) = delete;
  FlightRecorder& operator=(const FlightRecorder&) = delete;
  ~FlightRecorder();

  // Sets the identity of the rank. Called once, before everything else.
  void begin(int rank, int ranks, const std::string& host);
  // Moves the record to a new file, which replaces an existing one. Throws EnvironmentError, and
  // keeps the record in memory, if there is not enough space.
  void keep_in(const std::filesystem::path& path);
  // Path of the file; empty before keep_in(). Thread-safe.
  std::filesystem::path file() const {
    return is_kept_.load(std::memory_order_acquire) ? file_ : std::filesystem::path();
  }

  // Called on the writing thread for each phase and call that is entered. It may throw; the phase
  // or call then stays entered.
  using Observer = std::function<void(const flight::Progress&)>;
  void observe(Observer observer) { observer_ = std::move(observer); }

  void enter(Phase phase);  // clears micro-batch and layer
  void set_step(std::int64_t step);
  void set_micro_batch(int micro_batch);
  void set_layer(int layer);  // index over the whole model

  // Registers a group of these world ranks; returns its number for the calls below.
  int add_group(const std::string& name, const std::vector<int>& members);
  // Frees the number for another group.
  void remove_group(int group);

  // A recorded call; `peer` of a message is a world rank.
  struct Entry {
    std::uint64_t number = 0;
    flight::Call call;
  };
  Entry begin_collective(int group, Operation operation, std::uint64_t bytes);
  Entry start_message(int group, Operation operation, std::uint64_t bytes, int peer);
  // The current call continues asynchronously; the rank is no longer in it until wait_for().
  void leave();
  void wait_for(const Entry& entry);
  // A failed call is never ended. `at`: the time of completion, if it was earlier than now.
  void end(const Entry& entry, std::int64_t at = 0);

  // Records how the rank ends; only the first call has an effect. Thread-safe.
  void close(flight::Ending ending);

  // Thread-safe.
  FlightRecorderPage page() const { return page_of(*layout_); }

 private:
  Entry enter_call(int group, Operation operation, std::uint64_t sequence, std::uint64_t bytes,
                   int peer);
  void wait_in(const flight::Call& call);
  void publish();

  flight::Layout* layout_;
  flight::Progress progress_;
  Observer observer_;
  std::filesystem::path file_;
  std::atomic<bool> is_kept_ = false;
};

// "rank-00003", the file name in RUN_DIR/flight-recorder.
std::string flight_recorder_file_name(int rank);

// Nanoseconds of CLOCK_MONOTONIC, the clock of all records.
std::int64_t flight_recorder_now();

}  // namespace trireme
