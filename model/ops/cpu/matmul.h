#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "model/ops/accumulate.h"
#include "model/tensor/dtype.h"

namespace trireme::ops::cpu {

// A matrix product as passed to a library: c [m, n] = or += a [m, k] b [k, n], row-major, b and c
// dense. Contains everything a choice or a compiled kernel depends on.
struct MatMulShape {
  bool transpose_a = false;
  bool transpose_b = false;
  Accumulate accumulate = Accumulate::kReplace;
  bool bias = false;
  DType in = DType::kF32;
  DType out = DType::kF32;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0;  // k, or m if transposed, unless a is a slice
  int threads = 1;
  bool operator==(const MatMulShape&) const = default;
};

struct MatMulHash {
  std::size_t operator()(const MatMulShape& s) const {
    std::size_t hash = 0xcbf29ce484222325;
    const auto mix = [&hash](std::int64_t value) {
      hash = (hash ^ static_cast<std::size_t>(value)) * 0x100000001b3;
    };
    for (const std::int64_t value : {s.m, s.n, s.k, s.lda}) mix(value);
    mix(s.transpose_a | s.transpose_b << 1 | (s.accumulate == Accumulate::kAdd) << 2 | s.bias << 3);
    mix(static_cast<int>(s.in) | static_cast<int>(s.out) << 4 | s.threads << 8);
    return hash;
  }
};

struct MatMul {
  MatMulShape shape;
  const std::byte* a = nullptr;
  const std::byte* b = nullptr;
  const std::byte* bias = nullptr;  // [n] in the operands' dtype, or null
  std::byte* c = nullptr;
};

// An implementation of matrix products. Not thread-safe.
class MatMulLibrary {
 public:
  MatMulLibrary() = default;
  MatMulLibrary(const MatMulLibrary&) = delete;
  MatMulLibrary& operator=(const MatMulLibrary&) = delete;
  virtual ~MatMulLibrary() = default;

  // Whether it has an optimized kernel for this product on this machine.
  virtual bool takes(const MatMulShape& shape) const = 0;
  // Version and instruction set, which determine bits and speed.
  virtual std::string name() const = 0;
  virtual void run(const MatMul& product) = 0;
  // Products that differ in the number of a's rows only, m or a transposed product's k, which is
  // new in every step: no work is done per shape. Consecutive products may add to one c.
  virtual void run_grouped(std::span<const MatMul> products) {
    for (const MatMul& product : products) run(product);
  }
};

}  // namespace trireme::ops::cpu
