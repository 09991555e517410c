// Speed of this machine's cores in one dtype, for programs that take turns with it (turns.py): a
// thread per core multiplies small matrices until it is killed.
//   pace float32|bfloat16 FILE
// FILE receives the number of products of each thread so far, as 64-bit integers.
#include <fcntl.h>
#include <omp.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <dnnl.hpp>
#include <string_view>
#include <vector>

namespace {

constexpr std::int64_t kSide = 192;  // all matrices fit the second-level cache of a core

// Never returns.
void multiply(dnnl::memory::data_type dtype, std::atomic<std::int64_t>& count) {
  const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  const dnnl::memory::desc square({kSide, kSide}, dtype, dnnl::memory::format_tag::ab);
  const dnnl::matmul product(dnnl::matmul::primitive_desc({square, square, square}, engine));
  std::vector<dnnl::memory> matrices;
  for (int i = 0; i < 3; ++i) {
    matrices.emplace_back(square, engine);
    std::memset(matrices.back().get_data_handle(), 0x3C, square.get_size());  // 0.01
  }
  for (;; ++count) {
    product.execute(stream, {{DNNL_ARG_SRC, matrices[0]},
                             {DNNL_ARG_WEIGHTS, matrices[1]},
                             {DNNL_ARG_DST, matrices[2]}});
    stream.wait();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc == 3 ? argv[1] : "";
  if (name != "float32" && name != "bfloat16") {
    std::fprintf(stderr, "usage: pace float32|bfloat16 FILE\n");
    return 2;
  }
  const auto dtype =
      name == "bfloat16" ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
  const std::size_t bytes = static_cast<std::size_t>(omp_get_num_procs()) * sizeof(std::int64_t);
  const int file = ::open(argv[2], O_RDWR | O_CREAT | O_TRUNC, 0644);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    std::perror(argv[2]);
    return 1;
  }
  void* const counts = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (counts == MAP_FAILED) {
    std::perror(argv[2]);
    return 1;
  }
#pragma omp parallel num_threads(omp_get_num_procs())
  multiply(dtype, static_cast<std::atomic<std::int64_t>*>(counts)[omp_get_thread_num()]);
}
