#include "tests/cuda_emulator/fibers.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <utility>

#include "model/base/error.h"

namespace trireme::emulator {
namespace {

Fibers* starting = nullptr;

}  // namespace

std::byte* Fibers::new_stack() const {
  void* stack = ::mmap(nullptr, stack_bytes_, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  require(stack != MAP_FAILED, "no memory for a thread's stack");
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  require(::mprotect(stack, page, PROT_NONE) == 0, "no guard below a thread's stack");
  return static_cast<std::byte*>(stack);
}

Fibers::~Fibers() {
  for (const auto& fiber : fibers_) ::munmap(fiber->stack, stack_bytes_);
}

void Fibers::prepare(std::size_t count, std::function<void()> work) {
  work_ = std::move(work);
  while (fibers_.size() < count) {
    fibers_.push_back(std::make_unique<Fiber>());
    fibers_.back()->stack = new_stack();
  }
  for (const auto& fiber : fibers_) {
    if (!fiber->done) fiber->started = false;
  }
  for (std::size_t i = 0; i < count; ++i) fibers_[i]->done = false;
}

void Fibers::enter() {
  Fibers& fibers = *starting;
  for (;;) {
    fibers.work_();
    fibers.running_->done = true;
    fibers.pause();
  }
}

void Fibers::start(Fiber& fiber) {
  fiber.started = true;
  starting = this;
  ucontext_t context;
  ::getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack;
  // Stacks that all began at one place in their pages would drive each other out of the caches.
  const std::size_t turn = ++turns_ % 64;
  context.uc_stack.ss_size = stack_bytes_ - turn * 64;
  context.uc_link = nullptr;
  ::makecontext(&context, &Fibers::enter, 0);
  ::setcontext(&context);
}

// The compiler's own setjmp keeps neither the signal mask nor more registers than it must, which
// makes it many times faster than swapcontext; only a fiber's first step is made by the latter's
// kin.
[[gnu::noinline]] void Fibers::go_to(Point& point) {
  __builtin_longjmp(point, 1);
}

bool Fibers::resume(std::size_t i) {
  running_ = fibers_[i].get();
  if (__builtin_setjmp(home_) == 0) {
    if (running_->started) go_to(running_->point);
    start(*running_);
  }
  return running_->done;
}

void Fibers::pause() {
  if (__builtin_setjmp(running_->point) == 0) go_to(home_);
}

}  // namespace trireme::emulator
