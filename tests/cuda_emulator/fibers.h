#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace trireme::emulator {

// Threads of one block, or ranks of one job, of which one runs at a time and gives way by itself.
class Fibers {
 public:
  static constexpr std::size_t kSmallStack = std::size_t{128} << 10;

  explicit Fibers(std::size_t stack_bytes = kSmallStack) : stack_bytes_(stack_bytes) {}
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  // `work` is what the next `count` fibers do. Fibers that were left in the middle of other
  // work are started anew.
  void prepare(std::size_t count, std::function<void()> work);
  // Lets fiber `i` run until it pauses or has done its work; returns whether it has.
  bool resume(std::size_t i);
  // Called by the running fiber: back to who resumed it.
  void pause();

 private:
  using Point = void* [5];  // of __builtin_setjmp: frame, stack and where to go on
  struct Fiber {
    Point point;
    std::byte* stack = nullptr;
    bool started = false;  // `point` is somewhere in its loop
    bool done = true;
  };
  static void enter();
  [[noreturn]] static void go_to(Point& point);
  void start(Fiber& fiber);

  std::byte* new_stack() const;

  std::size_t stack_bytes_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::function<void()> work_;
  Point home_;
  Fiber* running_ = nullptr;
  std::size_t turns_ = 0;
};

}  // namespace trireme::emulator
