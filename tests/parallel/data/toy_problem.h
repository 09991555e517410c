#pragma once
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "model/params/param_store.h"

namespace trireme::test {

// A model small enough to be written twice, here and in reference_rules.py: of every token an
// embedding, a gain and an MLP with tanh should give a vector that moves a little at every step.
struct ToyProblem {
  static constexpr int kTokens = 12, kHidden = 6, kInner = 10;
  using Tensors = std::map<std::string, std::vector<double>>;

  // What a rank of `holders` has of it.
  static void declare(ParamStore& store, Slice holders) {
    store.declare({.name = "embedding.weight",
                   .shape = {kTokens, kHidden},
                   .cut = {0, holders},
                   .init_scale = 0.5,
                   .decay = true});
    store.declare({.name = "gain", .shape = {kHidden}, .cut = whole(holders), .init = Init::kOnes});
    store.declare({.name = "layers.0.up.weight",
                   .shape = {kInner, kHidden},
                   .cut = {0, holders},
                   .init_scale = 0.5,
                   .decay = true});
    store.declare({.name = "layers.0.down.weight",
                   .shape = {kHidden, kInner},
                   .cut = {1, holders},
                   .init_scale = 0.5,
                   .decay = true});
  }

  static double target(int token, int k, int step) {
    return std::sin(0.7 * token + 1.3 * k) + 0.1 * std::sin(0.37 * step + token * k);
  }

  // The loss at the weights; their gradients are written to `grads`.
  static double loss(const Tensors& weights, int step, Tensors& grads) {
    const auto &table = weights.at("embedding.weight"), &gain = weights.at("gain");
    const auto &up = weights.at("layers.0.up.weight"), &down = weights.at("layers.0.down.weight");
    for (const auto& [name, values] : weights) grads[name].assign(values.size(), 0.0);
    double loss = 0;
    for (int t = 0; t < kTokens; ++t) {
      double x[kHidden], h[kInner], dh[kInner] = {};
      for (int i = 0; i < kHidden; ++i) x[i] = table[t * kHidden + i] * gain[i];
      for (int j = 0; j < kInner; ++j) {
        double sum = 0;
        for (int i = 0; i < kHidden; ++i) sum += up[j * kHidden + i] * x[i];
        h[j] = std::tanh(sum);
      }
      for (int k = 0; k < kHidden; ++k) {
        double y = 0;
        for (int j = 0; j < kInner; ++j) y += down[k * kInner + j] * h[j];
        const double off = y - target(t, k, step);
        loss += 0.5 * off * off / kTokens;
        for (int j = 0; j < kInner; ++j) {
          grads["layers.0.down.weight"][k * kInner + j] += off * h[j] / kTokens;
          dh[j] += down[k * kInner + j] * off / kTokens;
        }
      }
      for (int j = 0; j < kInner; ++j) {
        const double da = dh[j] * (1 - h[j] * h[j]);
        for (int i = 0; i < kHidden; ++i) {
          grads["layers.0.up.weight"][j * kHidden + i] += da * x[i];
          const double dx = up[j * kHidden + i] * da;
          grads["embedding.weight"][t * kHidden + i] += dx * gain[i];
          grads["gain"][i] += dx * table[t * kHidden + i];
        }
      }
    }
    return loss;
  }
};

}  // namespace trireme::test
