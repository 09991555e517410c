#pragma once

namespace trireme::ops {

// gelu by tanh: x/2 (1 + tanh(u)) = x sigmoid(2u), with 2u = kTwice (x + kCubic x^3).
inline constexpr double kTwice = 1.5957691216057307117598;  // 2 sqrt(2 / pi)
inline constexpr double kCubic = 0.044715;

inline constexpr double kClampedSlope = 1.702;  // of the sigmoid in gpt-oss's gated unit

inline constexpr double kInverseRoot2 = 0.70710678118654752440;
inline constexpr double kNormalPeak = 0.39894228040143267794;  // the normal density at 0

// The normal distribution's upper tail in float32, for a >= 0: t P(t) exp(-a^2 / 2) with t = 1 / (1
// + kTailScale a), the form of Zelen and Severo (Abramowitz and Stegun 26.2.17). P, lowest power
// first, is minimax on a <= 14.4, where the tail vanishes: a relative error of 3.5e-9.
inline constexpr float kTailScale = 0.3f;
inline constexpr float kTailEnd = 14.4f;
struct TailPolynomial {
  static constexpr int kDegree = 9;
  float coefficient[kDegree + 1];
};
inline constexpr TailPolynomial kTail{{0.119686681f, 0.119571971f, 0.110234183f, 0.0783951629f,
                                       0.0961416267f, -0.0793964142f, 0.191753333f, -0.228191115f,
                                       0.112426399f, -0.0206218298f}};

}  // namespace trireme::ops
