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
#include "parallel/comm/ledger.h"
#include "trainer/supervise/link/sealed_link.h"
#include "trainer/supervise/watchdog/verdict.h"
#include "trainer/supervise/watchdog/watch_message.h"

namespace trireme {

inline constexpr std::int64_t kSecond = 1'000'000'000;  // as ledger_now() counts

struct WatchOptions {
  double heartbeat_timeout_s = 30;  // a rank that is silent so long has stopped
  // One that is awaited and does not move so long hangs; never where the usual limit is 0.
  StallLimits stall = {600, 1800};
};

// The watching thread of one rank. Each keeps a connection to the ranks that lead, rank 0
// and its deputy rank 1, and tells them a few times within the heartbeat time what its
// ledger shows. Rank 0, or its deputy where it is gone, judges what has happened, tells it
// once on stderr, in events.jsonl and to all; then every watch ends its process, with
// ExitCode::kPeer or with the code of the rank's own failure: what waits inside MPI for a
// rank that is gone can be ended in no other way.
class Watch {
 public:
  static constexpr int kLeaders = 2;
  // Where a leader listens; addresses in network byte order.
  struct Place {
    std::uint16_t port = 0;
    std::vector<std::uint32_t> addresses;
  };
  struct Setup {
    int rank = 0;
    std::vector<std::string> hosts;  // of all ranks
    Ledger& ledger;                  // outlives the watch
    RunToken token;                  // the ranks', drawn for this start
    std::vector<Place> leaders;
    Socket listener;  // where the rank leads
    WatchOptions options;
  };
  explicit Watch(Setup setup);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  // The thread's work; returns after leave().
  void run();

  // From the rank's own thread:
  // Whether all leaders have answered within so many seconds.
  bool wait_until_connected(double seconds);
  // All ranks are connected: a connection that breaks is a rank that is lost.
  void arm();
  // This rank's part is done: what happens to it is of no interest any more.
  void leave();
  // This rank's part has failed; ends the process with `code` once that is told.
  [[noreturn]] void fail(RankHealth health, const std::string& words, ExitCode code);

 private:
  using Kind = WatchMessage::Kind;
  struct Peer {
    Peer(SealedStream::End end, const RunToken& token, Socket socket)
        : link(end, token, std::move(socket)) {}
    MessageLink<WatchMessage> link;
    int rank = -1;           // not known yet
    bool is_leader = false;  // this end has sought it as one
    bool has_greeted = false;
    bool is_known = false;  // its hello has come
    bool has_left = false;
    std::int64_t heard = 0;  // the last message's time
    std::int64_t since = 0;  // the connection's
  };
  struct Known {
    int pid = 0;
    std::int64_t page_now = 0;       // by its own clock
    std::int64_t page_received = 0;  // by ours; of this rank itself: when it failed
  };
  struct Sought {
    std::size_t tries = 0;  // each with another address
    bool answered = false;
  };
  struct Failure {
    RankHealth health;
    std::string words;
    ExitCode code;
  };

  // Links.
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
  void take_orders();
  void beat();
  WatchMessage own_beat(Kind kind) const;
  void tell_all(const WatchMessage& message);
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
  [[noreturn]] void pronounce(const Verdict& verdict);
  // Since those who are blamed have last been known to work.
  double detect_seconds(const Verdict& verdict) const;
  void record(const Verdict& verdict) const;
  [[noreturn]] void end_process(std::int64_t time) const;

  Setup setup_;
  std::int64_t interval_;   // between beats
  std::int64_t heartbeat_;  // the timeout
  WorldReport world_;
  std::vector<Known> known_;
  std::list<Peer> peers_;
  std::vector<Sought> sought_;          // the leaders
  std::int64_t round_ = 0;              // when what is seen now came
  std::int64_t suspicious_since_ = 0;   // 0: all are well
  std::optional<Failure> own_failure_;  // as the thread knows it

  int wake_ = -1;
  std::mutex mutex_;  // guards the orders
  std::condition_variable changed_;
  std::optional<Failure> ordered_failure_;
  bool ordered_to_leave_ = false;
  int answered_ = 0;  // leaders
  std::atomic<bool> is_armed_ = false;
};

}  // namespace trireme
