#pragma once
#include <functional>
#include <string>
#include <vector>

#include "model/device/stream.h"
#include "model/tensor/arena.h"

// Benchmarks of ops on the first CUDA device, each with the time that `trireme plan` predicts for
// it.
namespace trireme::bench {

// What a benchmark takes its operands from. A first, planning pass finds how much memory that is.
struct Operands {
  Stream& stream;
  Arena& arena;
  Arena& scratch;
  std::string label = {};   // shown next to the time
  double copied_bytes = 0;  // by a copy between host and device, which no op records

  Tensor zeros(Shape shape, DType dtype = DType::kBf16) { return arena.take(shape, dtype); }
  Tensor random(Shape shape, DType dtype = DType::kBf16);   // uniform in [-1, 1)
  Tensor ids(std::int64_t count, std::int64_t vocabulary);  // like Zipf's: the small ones often
  Tensor integers(const std::vector<std::int32_t>& values);
};
// Makes operands, and returns the work to time.
using Prepare = std::function<std::function<void()>(Operands&)>;

void add(const std::string& name, const Prepare& prepare);

// With --small an extent of few elements, as odd or even as `full` to 16; otherwise `full`.
std::int64_t extent(std::int64_t full);

void add_copies();
void add_products();
void add_attention();
void add_streams();
void add_expert_streams();
void add_expert_products();

}  // namespace trireme::bench
