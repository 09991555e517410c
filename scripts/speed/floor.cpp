// Hardware floor of one training step on this machine: its matmuls alone, each by the faster of
// OpenBLAS and oneDNN for its shape, plus one pass of AdamW over the parameters. A trainer at the
// floor does everything else for free.
//   floor --layers L --hidden D --ffn F [--gated] --vocab V --seq T --batch B --heads H
//         [--experts E --top_k K] [--threads 2] [--repetitions 5]
// With experts, F is the width of one, and each gets an equal part of the tokens' choices.
// Prints METRIC lines: tok_s and ms_step (medians), and the parts of the step.
#include <cblas.h>
#include <omp.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <dnnl.hpp>
#include <map>
#include <memory>
#include <new>
#include <tuple>
#include <vector>

extern "C" void openblas_set_num_threads(int);

namespace {

struct Step {
  std::int64_t layers = 0, hidden = 0, ffn = 0, vocab = 0, seq = 0, batch = 0, heads = 0;
  std::int64_t experts = 0, top_k = 0;
  bool gated = false;
  int threads = 2;
  int repetitions = 5;
  std::int64_t tokens() const { return batch * seq; }
  std::int64_t up() const { return gated ? 2 * ffn : ffn; }
  // Tokens of each expert, rounded down.
  std::int64_t expert_rows() const { return tokens() * top_k / experts; }
  std::int64_t layer_parameters() const {
    const std::int64_t mlp = up() + ffn;
    return hidden * (4 * hidden + (experts == 0 ? mlp : experts * (mlp + 1)));
  }
};

double now() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// Floats aligned to a cache line, filled with small values of both signs.
class Floats {
 public:
  explicit Floats(std::int64_t count)
      : data_(static_cast<float*>(::operator new(static_cast<std::size_t>(count) * 4, kLine))) {
#pragma omp parallel for
    for (std::int64_t i = 0; i < count; ++i) {
      data_.get()[i] = static_cast<float>((i * 2654435761 >> 20) % 1000) * 1e-4F - 0.05F;
    }
  }
  float* at(std::int64_t offset = 0) const {
    return data_.get() + offset;
  }

 private:
  static constexpr std::align_val_t kLine{64};
  struct Free {
    void operator()(float* p) const { ::operator delete(p, kLine); }
  };
  std::unique_ptr<float, Free> data_;
};

// c [m, n] = a b; transposed operands are stored transposed.
struct Product {
  bool transposed_a = false, transposed_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  auto key() const { return std::tuple(transposed_a, transposed_b, m, n, k); }
};

void by_openblas(const Product& p, const float* a, const float* b, float* c) {
  cblas_sgemm(CblasRowMajor, p.transposed_a ? CblasTrans : CblasNoTrans,
              p.transposed_b ? CblasTrans : CblasNoTrans, static_cast<int>(p.m),
              static_cast<int>(p.n), static_cast<int>(p.k), 1.0F, a,
              static_cast<int>(p.transposed_a ? p.m : p.k), b,
              static_cast<int>(p.transposed_b ? p.k : p.n), 0.0F, c, static_cast<int>(p.n));
}

class OneDnn {
 public:
  explicit OneDnn(const Product& p)
      : a_({p.m, p.k}, kF32, p.transposed_a ? Tag::ba : Tag::ab),
        b_({p.k, p.n}, kF32, p.transposed_b ? Tag::ba : Tag::ab),
        c_({p.m, p.n}, kF32, Tag::ab),
        matmul_(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a_, b_, c_), engine())) {}

  void operator()(const float* a, const float* b, float* c) {
    dnnl::stream stream(engine());
    matmul_.execute(stream, {{DNNL_ARG_SRC, dnnl::memory(a_, engine(), const_cast<float*>(a))},
                             {DNNL_ARG_WEIGHTS, dnnl::memory(b_, engine(), const_cast<float*>(b))},
                             {DNNL_ARG_DST, dnnl::memory(c_, engine(), c)}});
    stream.wait();
  }

 private:
  using Tag = dnnl::memory::format_tag;
  static constexpr auto kF32 = dnnl::memory::data_type::f32;
  static dnnl::engine& engine() {
    static dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
    return cpu;
  }
  dnnl::memory::desc a_, b_, c_;
  dnnl::matmul matmul_;
};

// Caches the faster library for every shape.
class Fastest {
 public:
  void operator()(const Product& p, const float* a, const float* b, float* c) {
    auto found = choices_.find(p.key());
    if (found == choices_.end()) found = choices_.emplace(p.key(), choose(p, a, b, c)).first;
    if (found->second) {
      (*found->second)(a, b, c);
    } else {
      by_openblas(p, a, b, c);
    }
  }
  std::size_t shapes() const { return choices_.size(); }
  std::size_t by_onednn() const {
    return static_cast<std::size_t>(std::count_if(
        choices_.begin(), choices_.end(), [](const auto& c) { return c.second != nullptr; }));
  }

 private:
  static std::unique_ptr<OneDnn> choose(const Product& p, const float* a, const float* b,
                                        float* c) {
    auto onednn = std::make_unique<OneDnn>(p);
    std::vector<double> theirs, ours;
    for (int i = 0; i < 8; ++i) {  // the first run of each library is a warm-up
      const double start = now();
      by_openblas(p, a, b, c);
      const double middle = now();
      (*onednn)(a, b, c);
      const double end = now();
      if (i > 0) theirs.push_back(middle - start), ours.push_back(end - middle);
    }
    return median(ours) < median(theirs) ? std::move(onednn) : nullptr;
  }
  std::map<std::tuple<bool, bool, std::int64_t, std::int64_t, std::int64_t>,
           std::unique_ptr<OneDnn>>
      choices_;
};

class Floor {
 public:
  explicit Floor(const Step& s)
      : s_(s),
        parameters_(s.layers * s.layer_parameters() + s.vocab * s.hidden +
                    (s.gated ? 0 : s.seq * s.hidden)),
        widest_(s.tokens() * std::max({s.vocab, s.up(), 3 * s.hidden})),
        weights_(parameters_),
        grads_(parameters_),
        first_(parameters_),
        second_(parameters_),
        x_(widest_),
        y_(widest_),
        scores_(s.threads * s.seq * s.seq) {}

  std::int64_t parameters() const { return parameters_; }
  const Fastest& fastest() const { return fastest_; }

  // Forward, input gradient and weight gradient of every linear layer.
  void linears() {
    std::int64_t offset = 0;
    const auto linear_of = [&](std::int64_t rows, std::int64_t in, std::int64_t out) {
      float* w = weights_.at(offset);
      fastest_({false, true, rows, out, in}, x_.at(), w, y_.at());
      fastest_({false, false, rows, in, out}, y_.at(), w, x_.at());
      fastest_({true, false, out, in, rows}, y_.at(), x_.at(), grads_.at(offset));
      offset += in * out;
    };
    const auto linear = [&](std::int64_t in, std::int64_t out) { linear_of(s_.tokens(), in, out); };
    for (std::int64_t layer = 0; layer < s_.layers; ++layer) {
      linear(s_.hidden, 3 * s_.hidden);
      linear(s_.hidden, s_.hidden);
      if (s_.experts > 0) {
        linear(s_.hidden, s_.experts);
        for (std::int64_t e = 0; e < s_.experts; ++e) {
          linear_of(s_.expert_rows(), s_.hidden, s_.up());
          linear_of(s_.expert_rows(), s_.ffn, s_.hidden);
        }
      } else {
        linear(s_.hidden, s_.up());
        linear(s_.ffn, s_.hidden);
      }
    }
    linear(s_.hidden, s_.vocab);
  }

  // The six matmuls of attention forward and backward, on whole [seq, seq] matrices, one head per
  // thread.
  void attention() {
    openblas_set_num_threads(1);
    const std::int64_t width = s_.hidden / s_.heads, t = s_.seq, row = 3 * s_.hidden;
    for (std::int64_t layer = 0; layer < s_.layers; ++layer) {
#pragma omp parallel for schedule(static) num_threads(s_.threads)
      for (std::int64_t i = 0; i < s_.batch * s_.heads; ++i) {
        float* q = x_.at(i / s_.heads * t * row + i % s_.heads * width);
        float *k = q + s_.hidden, *v = k + s_.hidden;
        float* out = y_.at(i * t * width);
        float* scores = scores_.at(omp_get_thread_num() * t * t);
        const auto product = [&](bool ta, bool tb, std::int64_t n, std::int64_t inner, float* a,
                                 std::int64_t lda, float* b, std::int64_t ldb, float* c,
                                 std::int64_t ldc) {
          cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans, tb ? CblasTrans : CblasNoTrans,
                      static_cast<int>(t), static_cast<int>(n), static_cast<int>(inner), 1.0F, a,
                      static_cast<int>(lda), b, static_cast<int>(ldb), 0.0F, c,
                      static_cast<int>(ldc));
        };
        product(false, true, t, width, q, row, k, row, scores, t);       // scores
        product(false, false, width, t, scores, t, v, row, out, width);  // values mixed
        product(true, false, width, t, scores, t, out, width, v, row);   // of the values
        product(false, true, t, width, out, width, v, row, scores, t);   // of the weights
        product(false, false, width, t, scores, t, k, row, q, row);      // of the queries
        product(true, false, width, t, scores, t, q, row, k, row);       // of the keys
      }
    }
    openblas_set_num_threads(s_.threads);
  }

  void adamw() {
    float *w = weights_.at(), *g = grads_.at(), *m = first_.at(), *v = second_.at();
#pragma omp parallel for simd
    for (std::int64_t i = 0; i < parameters_; ++i) {
      m[i] = 0.9F * m[i] + 0.1F * g[i];
      v[i] = 0.95F * std::fabs(v[i]) + 0.05F * g[i] * g[i];
      w[i] -= 1e-6F * (m[i] / (std::sqrt(v[i]) + 1e-8F) + 0.1F * w[i]);
    }
  }

  // Rescales outputs to keep them finite: there are no norms between the matmuls.
  void settle() {
    std::fill_n(x_.at(), widest_, 0.01F);
    std::fill_n(y_.at(), widest_, 0.01F);
  }

 private:
  Step s_;
  std::int64_t parameters_, widest_;
  Floats weights_, grads_, first_, second_, x_, y_, scores_;
  Fastest fastest_;
};

}  // namespace

int main(int argc, char** argv) {
  Step s;
  CLI::App app("Matrix products and optimizer traffic of one training step");
  app.add_option("--layers", s.layers)->required();
  app.add_option("--hidden", s.hidden)->required();
  app.add_option("--ffn", s.ffn)->required();
  app.add_flag("--gated", s.gated);
  app.add_option("--vocab", s.vocab)->required();
  app.add_option("--seq", s.seq)->required();
  app.add_option("--batch", s.batch)->required();
  app.add_option("--heads", s.heads)->required();
  app.add_option("--experts", s.experts);
  app.add_option("--top_k", s.top_k);
  app.add_option("--threads", s.threads);
  app.add_option("--repetitions", s.repetitions);
  CLI11_PARSE(app, argc, argv);
  omp_set_num_threads(s.threads);
  openblas_set_num_threads(s.threads);

  Floor floor(s);
  std::vector<double> linear, attention, adamw, total;
  for (int i = -2; i < s.repetitions; ++i) {  // negative: selects the libraries, warms up
    floor.settle();
    const double start = now();
    floor.linears();
    const double a = now();
    floor.attention();
    const double b = now();
    floor.adamw();
    const double end = now();
    if (i < 0) continue;
    linear.push_back(a - start);
    attention.push_back(b - a);
    adamw.push_back(end - b);
    total.push_back(end - start);
  }
  std::printf("METRIC tok_s %.1f\n", static_cast<double>(s.tokens()) / median(total));
  std::printf("METRIC ms_step %.2f\n", median(total) * 1e3);
  std::printf("METRIC linear_ms %.2f\n", median(linear) * 1e3);
  std::printf("METRIC attention_ms %.2f\n", median(attention) * 1e3);
  std::printf("METRIC adamw_ms %.2f\n", median(adamw) * 1e3);
  std::printf("METRIC parameters %lld\n", static_cast<long long>(floor.parameters()));
  std::printf("METRIC shapes %zu\n", floor.fastest().shapes());
  std::printf("METRIC shapes_by_onednn %zu\n", floor.fastest().by_onednn());
  return 0;
}
