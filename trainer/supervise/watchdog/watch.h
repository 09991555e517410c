#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "model/base/error.h"
#include "parallel/comm/flight_recorder.h"
#include "trainer/supervise/link/sealed_link.h"
#include "trainer/supervise/watchdog/verdict.h"
#include "trainer/supervise/watchdog/watch_message.h"

namespace trireme {

inline constexpr std::int64_t kSecond =
    1'000'000'000;  // nanoseconds, the unit of flight_recorder_now()

struct WatchOptions {
  double heartbeat_timeout_s = 30;  // a rank without a heartbeat for this long has stopped
  // Limits for a rank that others wait for; a usual limit of 0 disables stall detection.
  StallLimits stall = {600, 1800};
};

// The watchdog thread of one rank. Each rank keeps a connection to the leaders, rank 0 and its
// deputy rank 1, and sends them its recording page several times per heartbeat timeout. Rank 0, or
// the deputy if rank 0 is gone, judges failures, reports the verdict once on stderr and in
// events.jsonl, and sends it to all ranks; then each watchdog exits its process, with the exit code
// of the rank's own failure or with ExitCode::kPeer. Exiting is the only way out of an MPI call
// that waits for a lost rank.
class Watch {
 public:
  static constexpr int kLeaders = 2;
  // Address of a leader's listener; IPv4, in network byte order.
  struct Place {
    std::uint16_t port = 0;
    std::vector<std::uint32_t> addresses;
  };
  struct Setup {
    int rank = 0;
    std::vector<std::string> hosts;  // of all ranks
    FlightRecorder& recorder;        // must outlive the Watch
    RunToken token;                  // shared by the ranks, new at each start
    std::vector<Place> leaders;
    Socket listener;  // open if this rank is a leader
    WatchOptions options;
  };
  explicit Watch(Setup setup);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  // Body of the watchdog thread; returns after leave().
  void run();

  // The functions below are called by the rank's main thread.
  // Whether all leaders have responded within `seconds`.
  bool wait_until_connected(double seconds);
  // All ranks are connected: from now on a closed connection means a lost rank.
  void arm();
  // This rank has finished: its later exit is not a failure.
  void leave();
  // Reports a failure of this rank and exits the process with `code`.
  [[noreturn]] void fail(RankHealth health, const std::string& words, ExitCode code);

 private:
  using Kind = WatchMessage::Kind;
  struct Peer {
    Peer(SealedStream::End end, const RunToken& token, Socket socket)
        : link(end, token, std::move(socket)) {}
    MessageLink<WatchMessage> link;
    int rank = -1;           // unknown
    bool is_leader = false;  // this rank connected to it as a leader
    bool has_greeted = false;
    bool is_known = false;  // its hello has arrived
    bool has_left = false;
    std::int64_t heard = 0;  // time of the last message
    std::int64_t since = 0;  // time of the connection
  };
  struct PeerState {
    int pid = 0;
    std::int64_t page_now = 0;       // by its own clock
    std::int64_t page_received = 0;  // by the local clock; for this rank: when it failed
  };
  struct LeaderLink {
    std::size_t tries = 0;  // each uses the next address
    bool answered = false;
  };
  struct Failure {
    RankHealth health;
    std::string words;
    ExitCode code;
  };

  // Connections.
  void sleep_until(std::int64_t time);
  void connect_to_leaders();
  void accept();
  void exchange();
  void receive_from(Peer& peer);
  void say_hello(Peer& peer);
  void on_hello(Peer& peer, const WatchMessage& message);
  void on_message(Peer& peer, const WatchMessage& message);
  void on_closed(const Peer& peer);
  void on_lost(int rank);
  void on_lost_elsewhere(const WatchMessage& message);
  void take_requests();
  void beat();
  WatchMessage own_beat(Kind kind) const;
  void send_to_all(const WatchMessage& message);
  void flush_for(double seconds);
  void wake() const;

  // Judging.
  bool may_judge(std::int64_t now) const;
  void look(std::int64_t now);
  std::vector<int> lost_ranks() const;
  void find_silent(std::int64_t now);
  void gather_pages();
  RankReport& report(int rank) { return world_[static_cast<std::size_t>(rank)]; }
  const RankReport& report(int rank) const { return world_[static_cast<std::size_t>(rank)]; }
  [[noreturn]] void announce(const Verdict& verdict);
  // Seconds since the blamed ranks were last known to make progress.
  double detect_seconds(const Verdict& verdict) const;
  void record(const Verdict& verdict) const;
  [[noreturn]] void end_process(std::int64_t time) const;

  Setup setup_;
  std::int64_t interval_;   // nanoseconds between heartbeats
  std::int64_t heartbeat_;  // heartbeat timeout, nanoseconds
  WorldReport world_;
  std::vector<PeerState> known_;
  std::list<Peer> peers_;
  std::vector<LeaderLink> leaders_;
  std::int64_t round_ = 0;              // time of the current round
  std::int64_t suspicious_since_ = 0;   // 0: all ranks are healthy
  std::optional<Failure> own_failure_;  // copy of the watchdog thread

  int wake_ = -1;
  std::mutex mutex_;  // guards the requests below
  std::condition_variable changed_;
  std::optional<Failure> requested_failure_;
  bool leave_requested_ = false;
  int answered_ = 0;  // number of leaders that have responded
  std::atomic<bool> is_armed_ = false;
};

}  // namespace trireme
