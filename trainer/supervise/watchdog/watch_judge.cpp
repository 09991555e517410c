#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <limits>

#include "parallel/comm/flight_recorder_losses.h"
#include "trainer/supervise/watchdog/watch.h"
#include "trainer/telemetry/events_log.h"

namespace trireme {
namespace {

// Time from the first symptom until the verdict: simultaneous failures are known by then, and the
// requested pages have arrived. The verdict comes earlier if all others already wait: launchers
// start to kill them after about a quarter of a second.
constexpr std::int64_t kSettle = kSecond / 5;
constexpr std::int64_t kLeastSettle = kSecond / 20;
// Delay before a rank that failed on its own exits.
constexpr useconds_t kOwnRestUs = 20'000;
// If only consequences are known, the cause may still appear.
constexpr std::int64_t kSettleForCause = kSecond / 2;

}  // namespace

// Rank 0 judges; if it is gone, its deputy; if both are gone, each rank for itself. A judge that
// does not act is replaced after the heartbeat timeout.
bool Watch::may_judge(std::int64_t now) const {
  const auto is_gone = [this](int rank) { return report(rank).health != RankHealth::kWell; };
  for (int leader = 0; leader < kLeaders && leader < setup_.rank; ++leader) {
    const bool reports_itself = report(leader).health == RankHealth::kFailed ||
                                report(leader).health == RankHealth::kPeerFailed;
    if (is_gone(leader) && !reports_itself) continue;
    return suspicious_since_ != 0 && now - suspicious_since_ > heartbeat_ + 2 * kSecond;
  }
  return true;
}

void Watch::look(std::int64_t now) {
  find_silent(now);
  const bool suspicious = std::any_of(world_.begin(), world_.end(),
                                      [](const RankReport& r) { return is_bad(r.health); });
  if (!suspicious) suspicious_since_ = 0;
  if (suspicious && suspicious_since_ == 0) {
    suspicious_since_ = now;
    send_to_all({.kind = Kind::kAsk, .ranks = lost_ranks()});
  }
  if (!may_judge(now)) return;
  if (suspicious) {
    const bool has_cause = std::any_of(world_.begin(), world_.end(), [](const RankReport& r) {
      return r.health > RankHealth::kPeerFailed;
    });
    const std::int64_t passed = now - suspicious_since_;
    if (passed < kLeastSettle) return;
    gather_pages();
    const bool may_change = !has_cause || !all_wait(world_);
    if (may_change && passed < (has_cause ? kSettle : kSettleForCause)) return;
    if (const auto verdict = judge_health(world_)) announce(*verdict);
  } else if (setup_.options.stall.usual_s > 0) {
    gather_pages();
    if (const auto verdict = judge_stall(world_, setup_.options.stall)) {
      announce(*verdict);
    }
  }
}

// The launcher may kill the judging rank, and then ranks judge that do not see the lost ones.
std::vector<int> Watch::lost_ranks() const {
  std::vector<int> lost;
  for (int rank = 0; rank < static_cast<int>(world_.size()); ++rank) {
    if (report(rank).health == RankHealth::kLost) lost.push_back(rank);
  }
  return lost;
}

void Watch::find_silent(std::int64_t now) {
  for (const Peer& peer : peers_) {
    if (!peer.is_known || peer.has_left) continue;
    RankReport& theirs = report(peer.rank);
    const std::int64_t silent = now - peer.heard;
    if (silent > heartbeat_ && theirs.health == RankHealth::kWell) {
      theirs.health = RankHealth::kSilent;
    }
    if (theirs.health == RankHealth::kSilent) theirs.silent_s = static_cast<double>(silent) * 1e-9;
  }
}

// Reads the recordings of ranks on this node; of other ranks the last heartbeat is used.
void Watch::gather_pages() {
  const std::filesystem::path own_file = setup_.recorder.file();
  for (int rank = 0; rank < static_cast<int>(world_.size()); ++rank) {
    RankReport& theirs = report(rank);
    const PeerState& known = known_[static_cast<std::size_t>(rank)];
    theirs.now = known.page_now + (flight_recorder_now() - known.page_received);
    if (rank == setup_.rank) {
      theirs.page = setup_.recorder.page();
      theirs.now = flight_recorder_now();
    }
    if (suspicious_since_ == 0 || known.pid == 0 || own_file.empty() ||
        theirs.host != report(setup_.rank).host) {
      continue;
    }
    try {
      const std::filesystem::path file = own_file.parent_path() / flight_recorder_file_name(rank);
      const FlightRecorderReader reader(file);
      if (reader.header().pid != known.pid) continue;
      theirs.page = reader.page();
      theirs.now = flight_recorder_now();
      theirs.outlived.clear();
      for (const FlightRecorderLoss& loss : losses_in(file)) {
        theirs.outlived.push_back(static_cast<int>(loss.rank));
      }
    } catch (const Error&) {
      continue;  // that rank has no recording
    }
  }
}

void Watch::announce(const Verdict& verdict) {
  const std::string line = "trireme: error: " + verdict.text + "\n";
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) {
    // stderr is closed
  }
  record(verdict);
  // mpirun kills the other ranks as soon as one exits with a failure, so all exit at one moment. A
  // rank that failed on its own exits first: the launcher returns its exit code.
  const std::int64_t rest = verdict.health == RankHealth::kFailed ? kSecond / 5 : kSecond / 30;
  const std::int64_t end = flight_recorder_now() + rest;
  send_to_all({.kind = Kind::kVerdict,
               .now = end,
               .health = verdict.health,
               .ranks = verdict.ranks,
               .text = verdict.text});
  flush_for(0.02);
  end_process(end);
}

double Watch::detect_seconds(const Verdict& verdict) const {
  double shortest = std::numeric_limits<double>::max();
  for (const int rank : verdict.ranks) {
    const std::int64_t unheard =
        flight_recorder_now() - known_[static_cast<std::size_t>(rank)].page_received;
    shortest = std::min(shortest, report(rank).unchanged_s());
    // A hung rank still sends heartbeats.
    if (verdict.health != RankHealth::kWell) {
      shortest = std::min(shortest, static_cast<double>(unheard) * 1e-9);
    }
  }
  return shortest;
}

// Bounded wait: an unresponsive file system must not block the exit.
void Watch::record(const Verdict& verdict) const {
  const std::filesystem::path own_file = setup_.recorder.file();
  if (own_file.empty()) return;
  const auto path = own_file.parent_path().parent_path() / "events.jsonl";
  const RankReport& first = report(verdict.ranks.front());
  std::vector<std::string> hosts;
  for (const int rank : verdict.ranks) hosts.push_back(report(rank).host);
  const double detect = detect_seconds(verdict);
  auto* recorded = new std::future<void>(std::async(std::launch::async, [=] {
    EventsLog(path).record("failure", first.page.progress.step,
                           {{"text", verdict.text},
                            {"ranks", verdict.ranks},
                            {"hosts", hosts},
                            {"health", name_of(verdict.health)},
                            {"phase", flight::name_of(first.page.phase())},
                            {"detect_seconds", detect},
                            {"exit_code", static_cast<int>(ExitCode::kPeer)}});
  }));
  recorded->wait_for(std::chrono::seconds(1));
}

void Watch::end_process(std::int64_t time) const {
  const bool by_itself = own_failure_ && own_failure_->health == RankHealth::kFailed;
  setup_.recorder.close(by_itself ? flight::Ending::kFailed : flight::Ending::kByPeer);
  if (own_failure_) {
    ::usleep(kOwnRestUs);  // lets sent messages leave
    ::_exit(static_cast<int>(own_failure_->code));
  }
  const std::int64_t left = time - flight_recorder_now();
  if (left > 0) ::usleep(static_cast<useconds_t>(left / 1000));
  ::_exit(static_cast<int>(ExitCode::kPeer));
}

}  // namespace trireme
