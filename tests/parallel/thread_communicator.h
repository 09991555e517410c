#pragma once
// Ranks as threads of one process: every collective meets at a barrier and is
// reduced by the tree of comm::reduce_in_order, so that it has those bits every time.
#include <algorithm>
#include <bit>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "model/ops/dispatch.h"
#include "parallel/comm/shapes.h"

namespace trireme::test {

// What the ranks of one group share.
class ThreadGroup {
 public:
  explicit ThreadGroup(int size) : slots_(static_cast<std::size_t>(size)) {}
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;
  virtual ~ThreadGroup() = default;
  int size() const { return static_cast<int>(slots_.size()); }

  // Shows all ranks `mine`; returns what all have shown once all have come. Good until
  // the caller's next call to leave().
  const std::vector<Tensor>& show(int rank, Tensor mine) {
    slots_[static_cast<std::size_t>(rank)] = mine;
    meet();
    return slots_;
  }
  // Returns when nobody looks at what was shown any more.
  void leave() { meet(); }

  // One end of a message from one rank to another. What is received is there once the
  // receiver has waited, and was NaN before; what is sent is read when both ends are there.
  struct Letter {
    Tensor tensor;
    std::vector<std::byte> carried;  // at the receiver's end
    bool met = false;
  };
  std::shared_ptr<Letter> post(int from, int to, Tensor tensor, bool sends) {
    const std::lock_guard guard(mutex_);
    Box& box = boxes_[{from, to}];
    auto letter = std::make_shared<Letter>(Letter{tensor, {}, false});
    if (!sends) std::memset(tensor.data, 0xff, tensor.bytes());
    (sends ? box.sent : box.received).push_back(letter);
    while (!box.sent.empty() && !box.received.empty()) {
      Letter& out = *box.sent.front();
      Letter& in = *box.received.front();
      require(out.tensor.bytes() == in.tensor.bytes(), "a message of ", out.tensor.bytes(),
              " bytes for one of ", in.tensor.bytes());
      in.carried.assign(out.tensor.data, out.tensor.data + out.tensor.bytes());
      out.met = in.met = true;
      box.sent.pop_front();
      box.received.pop_front();
    }
    changed_.notify_all();
    return letter;
  }
  void wait(Letter& letter) {
    std::unique_lock guard(mutex_);
    wait(guard, [&] { return broken_ || letter.met; });
    require(letter.met, "a rank has failed");
    std::copy(letter.carried.begin(), letter.carried.end(), letter.tensor.data);
  }

  // A rank that fails ends the others' waiting.
  void break_up() {
    const std::lock_guard guard(mutex_);
    broken_ = true;
    changed_.notify_all();
  }

 protected:
  // Returns when `until` holds, which a rank that gives `guard` up brings about.
  virtual void wait(std::unique_lock<std::mutex>& guard, const std::function<bool()>& until) {
    changed_.wait(guard, until);
  }

 private:
  void meet() {
    std::unique_lock guard(mutex_);
    const std::int64_t meeting = meetings_;
    if (++present_ == size()) {
      present_ = 0;
      ++meetings_;
      changed_.notify_all();
    }
    wait(guard, [&] { return broken_ || meetings_ != meeting; });
    require(meetings_ != meeting, "a rank has failed");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Tensor> slots_;
  struct Box {  // what has come from one side only
    std::deque<std::shared_ptr<Letter>> sent, received;
  };
  std::map<std::pair<int, int>, Box> boxes_;
  int present_ = 0;
  std::int64_t meetings_ = 0;
  bool broken_ = false;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(ThreadGroup& group, int rank) : group_(group), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return group_.size(); }

  void all_reduce(Stream& stream, Tensor tensor, Reduce how) override {
    if (!stream.executes()) return;
    const auto& all = group_.show(rank_, tensor);
    const std::vector<std::byte> result = reduced(all, 0, tensor.count(), how);
    group_.leave();
    std::memcpy(tensor.data, result.data(), result.size());
  }
  void all_gather(Stream& stream, Tensor whole, Tensor part) override {
    comm::check_parts("all_gather", *this, whole, part);
    if (!stream.executes()) return;
    comm::check_places("all_gather", *this, whole, part);
    const auto& all = group_.show(rank_, part);
    for (int r = 0; r < size(); ++r) {
      const Tensor& other = all[static_cast<std::size_t>(r)];
      require(other.count() == part.count(), "all_gather: parts of several sizes");
      std::memmove(whole.slice(r * part.count(), part.count()).data, other.data, part.bytes());
    }
    group_.leave();
  }
  void reduce_scatter(Stream& stream, Tensor part, Tensor whole) override {
    comm::check_parts("reduce_scatter", *this, whole, part);
    if (!stream.executes()) return;
    comm::check_places("reduce_scatter", *this, whole, part);
    const auto& all = group_.show(rank_, whole);
    const std::vector<std::byte> result =
        reduced(all, rank_ * part.count(), part.count(), Reduce::kSum);
    group_.leave();
    std::memcpy(part.data, result.data(), result.size());
  }
  void all_to_all(Stream& stream, const RankBlocks& received, const RankBlocks& sent) override {
    require(sent.counts.empty(), "only equal blocks are exchanged between threads");
    comm::check_blocks("all_to_all", *this, received, sent);
    if (!stream.executes()) return;
    comm::check_apart("all_to_all", received, sent);
    const auto& all = group_.show(rank_, sent.tensor);
    for (int r = 0; r < size(); ++r) {
      const Tensor theirs = RankBlocks(all[static_cast<std::size_t>(r)]).of(rank_, size());
      std::memcpy(received.of(r, size()).data, theirs.data, theirs.bytes());
    }
    group_.leave();
  }
  void broadcast(Stream& stream, Tensor tensor, int root) override {
    if (!stream.executes()) return;
    const Tensor theirs = group_.show(rank_, tensor)[static_cast<std::size_t>(root)];
    if (rank_ != root) std::memcpy(tensor.data, theirs.data, theirs.bytes());
    group_.leave();
  }
  void barrier(Stream& stream) override {
    if (stream.executes()) group_.leave();
  }
  Transfer start_send(Stream& stream, Tensor tensor, int to) override {
    if (!stream.executes()) return {};
    return Transfer(std::make_unique<Meeting>(group_, group_.post(rank_, to, tensor, true)));
  }
  Transfer start_receive(Stream& stream, Tensor tensor, int from) override {
    if (!stream.executes()) return {};
    return Transfer(std::make_unique<Meeting>(group_, group_.post(from, rank_, tensor, false)));
  }

 private:
  // A send, too, is over only when its receiver has come: as with a large message over MPI.
  class Meeting final : public Transfer::Pending {
   public:
    Meeting(ThreadGroup& group, std::shared_ptr<ThreadGroup::Letter> letter)
        : group_(group), letter_(std::move(letter)) {}
    void wait() override { group_.wait(*letter_); }

   private:
    ThreadGroup& group_;
    std::shared_ptr<ThreadGroup::Letter> letter_;
  };

  // Elements [first, first + count) of all.
  static std::vector<std::byte> reduced(const std::vector<Tensor>& all, std::int64_t first,
                                        std::int64_t count, Reduce how) {
    const DType dtype = all.front().dtype;
    for (const Tensor& tensor : all) {
      require(tensor.count() == all.front().count() && tensor.dtype == dtype,
              "a reduction of several sizes: ", tensor.shape, " and ", all.front().shape);
    }
    std::vector<std::byte> bytes(static_cast<std::size_t>(count) * size_of(dtype));
    with_float(dtype, [&](auto zero) {
      using T = decltype(zero);
      using A = Accumulator<T>;
      T* const out = reinterpret_cast<T*>(bytes.data());
      for (std::int64_t i = 0; i < count; ++i) {
        const auto of_ranks = [&](const auto& self, std::size_t from, std::size_t to) -> A {
          if (to - from == 1) return static_cast<A>(all[from].as<T>()[first + i]);
          const std::size_t middle = from + std::bit_floor(to - from - 1);
          const A value = self(self, from, middle), other = self(self, middle, to);
          const bool larger = other > value || other != other;  // a NaN stays one
          return how == Reduce::kSum ? value + other : larger ? other : value;
        };
        out[i] = T(of_ranks(of_ranks, 0, all.size()));
      }
    });
    return bytes;
  }
  ThreadGroup& group_;
  int rank_;
};

// Runs body(rank) on `ranks` threads and throws what the first of them has thrown.
// When one fails, `groups` are broken up, so that no other waits for it.
inline void run_ranks(int ranks, const std::vector<ThreadGroup*>& groups,
                      const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr failure;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (...) {
        const std::lock_guard guard(mutex);
        if (!failure) failure = std::current_exception();
        for (ThreadGroup* group : groups) group->break_up();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace trireme::test
