#include "model/ops/momentum.h"

#include "tests/model/ops/op_test.h"

namespace trireme::ops {
namespace {

using namespace trireme::test;  // NOLINT(google-build-using-namespace)

struct MomentumProblem {
  std::int64_t count;
  DType dtype = DType::kF64;
  bool has_master = true;
  double grad_scale = 0.5, rate = 0.75;
  DType sums() const { return accumulator_of(dtype); }
  Values master = random_values(count, 1, sums());
  Values momentum = random_values(count, 2, sums(), 0.1);
  Values grad = random_values(count, 3, sums());
};

struct MomentumApplied {
  Held value, master, momentum, grad, scale, rate;
  template <class Rule>
  MomentumApplied(Stream& stream, const MomentumProblem& p, const Rule& rule)
      : value(stream, {p.count}, p.dtype, p.has_master ? Values(p.count, 9.0) : p.master),
        master(stream, {p.count}, p.sums(), p.master),
        momentum(stream, {p.count}, p.sums(), p.momentum),
        grad(stream, {p.count}, p.sums(), p.grad),
        scale(stream, {1}, p.sums(), {p.grad_scale}),
        rate(stream, {1}, p.sums(), {p.rate}) {
    rule(stream, UpdateTensors{value, p.has_master ? master : value, grad, {momentum}}, scale,
         rate);
  }
  const Held& weights(const MomentumProblem& p) const { return p.has_master ? master : value; }
};

// Applies the rule to problems of all kinds; `expected` changes a problem as published.
template <class Rule, class Reference>
void expect_published(const Rule& rule, const Reference& expected) {
  on_every_platform_and_dtype([&](Stream& stream, DType dtype) {
    for (const std::int64_t count : {0, 1, 3, 17, 64, 20001}) {
      for (const bool has_master : {true, false}) {
        if (!has_master && size_of(dtype) == 2) continue;
        SCOPED_TRACE(say(count, has_master ? "" : " without master"));
        MomentumProblem p{count, dtype, has_master};
        const MomentumApplied got(stream, p, rule);
        expected(p);
        expect_values(got.momentum, p.momentum, 8, 2);
        expect_values(got.weights(p), p.master, 8, 2);
        if (has_master) expect_values(got.value, got.master.values(), 0, 1e-300);
      }
    }
  });
}

template <class Rule>
void expect_nan_changes_nothing(const Rule& rule) {
  on_every_platform_and_dtype([&](Stream& stream, DType dtype) {
    MomentumProblem p{100, dtype};
    p.grad_scale = kNan;
    const MomentumApplied got(stream, p, rule);
    EXPECT_EQ(got.master.values(), p.master);
    EXPECT_EQ(got.momentum.values(), p.momentum);
    EXPECT_EQ(got.value.values(), Values(100, 9.0));
  });
}

template <class Rule>
void expect_parts_alike(const Rule& rule) {
  on_every_platform_and_dtype([&](Stream& stream, DType dtype) {
    const MomentumProblem whole{1003, dtype};
    const MomentumApplied all(stream, whole, rule);
    for (const auto& [first, count] : {std::pair{1, 1000}, std::pair{7, 30}, std::pair{990, 13}}) {
      MomentumProblem part = whole;
      part.count = count;
      for (Values* values : {&part.master, &part.momentum, &part.grad}) {
        *values = Values(values->begin() + first, values->begin() + first + count);
      }
      const MomentumApplied some(stream, part, rule);
      const auto same = [&, at = first](const Held& a, const Held& b) {
        const Values x = a.values(), y = b.values();
        return std::equal(x.begin(), x.end(), y.begin() + at);
      };
      EXPECT_TRUE(same(some.value, all.value) && same(some.master, all.master) &&
                  same(some.momentum, all.momentum));
    }
  });
}

const auto run_descent = [](bool nesterov) {
  return [nesterov](Stream& stream, const UpdateTensors& tensors, Tensor scale, Tensor rate) {
    sgd_step(stream, tensors, scale,
             {.learning_rate = 0.1,
              .momentum = 0.9,
              .weight_decay = 0.2,
              .into = 0.5,
              .nesterov = nesterov,
              .rate = rate});
  };
};
const auto run_lion = [](Stream& stream, const UpdateTensors& tensors, Tensor scale, Tensor) {
  lion(stream, tensors, scale,
       {.learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.2});
};

TEST(Descend, update_is_that_of_torch_sgd_with_the_gradient_scaled) {
  for (const bool nesterov : {false, true}) {
    expect_published(run_descent(nesterov), [&](MomentumProblem& p) {
      for (std::int64_t i = 0; i < p.count; ++i) {
        const double g = 0.5 * p.rate * (p.grad[i] * p.grad_scale + 0.2 * p.master[i]);
        p.momentum[i] = 0.9 * p.momentum[i] + g;
        p.master[i] -= 0.1 * (nesterov ? g + 0.9 * p.momentum[i] : p.momentum[i]);
      }
    });
  }
}

TEST(Descend, without_a_rate_the_gradient_counts_in_full) {
  on_every_platform([](Stream& stream) {
    MomentumProblem p{5};
    p.rate = 1;
    const MomentumApplied with(stream, p, run_descent(false));
    const MomentumApplied without(
        stream, p, [](Stream& on, const UpdateTensors& tensors, Tensor scale, Tensor) {
          run_descent(false)(on, tensors, scale, {});
        });
    EXPECT_EQ(with.master.values(), without.master.values());
  });
}

TEST(Lion, update_is_the_published_one) {
  expect_published(run_lion, [](MomentumProblem& p) {
    for (std::int64_t i = 0; i < p.count; ++i) {
      const double g = p.grad[i] * p.grad_scale;
      const double mixed = 0.9 * p.momentum[i] + 0.1 * g;
      const double sign = mixed > 0 ? 1 : mixed < 0 ? -1 : 0;
      p.master[i] -= 0.01 * (sign + 0.2 * p.master[i]);
      p.momentum[i] = 0.99 * p.momentum[i] + 0.01 * g;
    }
  });
}

TEST(Lion, stays_where_nothing_pulls) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    MomentumProblem p{7, dtype};
    p.momentum = p.grad = Values(7, 0.0);
    const MomentumApplied got(stream, p,
                              [](Stream& on, const UpdateTensors& tensors, Tensor scale, Tensor) {
                                lion(on, tensors, scale, {.learning_rate = 0.01});
                              });
    EXPECT_EQ(got.master.values(), p.master);
  });
}

TEST(MomentumRules, a_nan_scale_changes_nothing) {
  expect_nan_changes_nothing(run_descent(true));
  expect_nan_changes_nothing(run_lion);
}

TEST(MomentumRules, a_part_of_the_range_gets_the_bits_it_has_in_the_whole) {
  expect_parts_alike(run_descent(true));
  expect_parts_alike(run_lion);
}

TEST(MomentumRules, bits_do_not_depend_on_threads) {
  on_every_platform_and_dtype([](Stream& stream, DType dtype) {
    expect_thread_independent([&] {
      const MomentumProblem p{50003, dtype};
      const MomentumApplied first(stream, p, run_descent(true)), second(stream, p, run_lion);
      return joined({&first.value, &first.momentum, &second.value, &second.momentum});
    });
  });
}

TEST(MomentumRules, bfloat16_weights_without_a_master_are_refused) {
  Stream stream;
  const MomentumProblem p{4, DType::kBf16, false};
  EXPECT_THROW(MomentumApplied(stream, p, run_lion), Error);
}

}  // namespace
}  // namespace trireme::ops
