#include "model/ops/cpu/matmul_onednn.h"

#include <dnnl.hpp>
#include <ios>
#include <sstream>
#include <unordered_map>

#include "model/base/error.h"
#include "model/device/memory.h"

namespace trireme::ops::cpu {

struct OneDnnKernel {
  dnnl::memory::desc scratchpad;
  dnnl::matmul run;
};

namespace {

using dnnl::memory;

// A training step has few shapes, but a mixture of experts has new ones in every batch.
constexpr std::size_t kMostKernels = 1024;

memory::data_type type_of(DType dtype) {
  return dtype == DType::kBf16 ? memory::data_type::bf16 : memory::data_type::f32;
}

// A [rows, columns] matrix in row-major order, or column-major if transposed.
memory::desc matrix(std::int64_t rows, std::int64_t columns, DType dtype, bool transposed,
                    std::int64_t ld) {
  const memory::dims strides = transposed ? memory::dims{1, ld} : memory::dims{ld, 1};
  return {{rows, columns}, type_of(dtype), strides};
}

struct Matrices {
  explicit Matrices(const MatMulShape& s)
      : a(matrix(s.m, s.k, s.in, s.transpose_a, s.lda)),
        b(matrix(s.k, s.n, s.in, s.transpose_b, s.transpose_b ? s.k : s.n)),
        c(matrix(s.m, s.n, s.out, false, s.n)) {
    if (s.bias) bias = matrix(1, s.n, s.in, false, s.n);
  }
  memory::desc a, b, c, bias;
};

OneDnnKernel compile(const MatMulShape& s, const dnnl::engine& engine) {
  OneDnnKernel kernel;
  const Matrices matrices(s);
  const auto& [a, b, c, bias] = matrices;
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (s.accumulate == Accumulate::kAdd) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
#if DNNL_VERSION_MAJOR >= 3
  const dnnl::matmul::primitive_desc how =
      s.bias ? dnnl::matmul::primitive_desc(engine, a, b, bias, c, attributes)
             : dnnl::matmul::primitive_desc(engine, a, b, c, attributes);
#else
  const dnnl::matmul::desc what =
      s.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  const dnnl::matmul::primitive_desc how(what, attributes, engine);
#endif
  kernel.scratchpad = how.scratchpad_desc();
  kernel.run = dnnl::matmul(how);
  return kernel;
}

}  // namespace

struct OneDnn::Kernels {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::unordered_map<MatMulShape, OneDnnKernel, MatMulHash> compiled;
  Memory scratchpad;  // shared by all kernels; size of the largest

  const OneDnnKernel& of(const MatMulShape& shape) {
    const auto found = compiled.find(shape);
    if (found != compiled.end()) return found->second;
    if (compiled.size() >= kMostKernels) compiled.clear();
    const OneDnnKernel& kernel = compiled.emplace(shape, compile(shape, engine)).first->second;
    if (kernel.scratchpad.get_size() > scratchpad.bytes())
      scratchpad = Memory(kernel.scratchpad.get_size(), Device{});
    return kernel;
  }
};

OneDnn::OneDnn() = default;
OneDnn::~OneDnn() = default;

bool OneDnn::supports(DType factors) {
  const auto has = [](dnnl::cpu_isa wanted) {
    const int bits = static_cast<int>(wanted);
    return (static_cast<int>(dnnl::get_effective_cpu_isa()) & bits) == bits;
  };
  if (factors == DType::kBf16) return has(dnnl::cpu_isa::avx512_core_bf16);
  return factors == DType::kF32;
}

std::string OneDnn::name() const {
  const dnnl_version_t* version = dnnl_version();
  std::ostringstream out;
  out << "oneDNN " << version->major << "." << version->minor << "." << version->patch << " "
      << std::hex << static_cast<int>(dnnl::get_effective_cpu_isa());
  return out.str();
}

void OneDnn::run_grouped(std::span<const MatMul> products) {
  for (const MatMul& product : products) {
    MatMulShape any = product.shape;
    (any.transpose_a ? any.k : any.m) = DNNL_RUNTIME_DIM_VAL;
    run(product, any);
  }
}

void OneDnn::run(const MatMul& product, const MatMulShape& compiled) {
  try {
    if (!kernels_) kernels_ = std::make_unique<Kernels>();
    const OneDnnKernel& kernel = kernels_->of(compiled);
    const Matrices matrices(product.shape);
    // oneDNN's handles are not const, even for inputs.
    const auto at = [this](const memory::desc& desc, const std::byte* data) {
      return memory(desc, kernels_->engine, const_cast<std::byte*>(data));
    };
    std::unordered_map<int, memory> arguments{
        {DNNL_ARG_SRC, at(matrices.a, product.a)},
        {DNNL_ARG_WEIGHTS, at(matrices.b, product.b)},
        {DNNL_ARG_DST, at(matrices.c, product.c)},
        {DNNL_ARG_SCRATCHPAD, at(kernel.scratchpad, kernels_->scratchpad.data())}};
    if (product.shape.bias) arguments.emplace(DNNL_ARG_BIAS, at(matrices.bias, product.bias));
    kernel.run.execute(kernels_->stream, arguments);
    kernels_->stream.wait();
  } catch (const dnnl::error& error) {
    throw EnvironmentError(say("oneDNN cannot multiply ", product.shape.m, " x ", product.shape.k,
                               " by ", product.shape.k, " x ", product.shape.n, " ",
                               name_of(product.shape.in), ": ", error.what()));
  }
}

}  // namespace trireme::ops::cpu
