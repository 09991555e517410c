#pragma once
// What the tests of ops share. Every op is tried on every platform (on the CPU each
// instruction set present), for every dtype, against a reference written in float64 to
// be read. Compiled with TRIREME_TESTED_ON_CUDA, the same tests try the first CUDA
// device instead; tests/model/CMakeLists.txt makes both programs.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "model/device/copy.h"
#include "model/device/devices.h"
#include "model/device/memory.h"
#include "model/device/stream.h"
#include "model/ops/cpu/simd/isa.h"
#include "model/tensor/arena.h"

namespace trireme::test {

using Values = std::vector<double>;

inline constexpr DType kFloats[] = {DType::kF32, DType::kF64, DType::kBf16, DType::kF16};
// Whether this program tries CUDA, and the CPU's properties are another one's to show.
#ifdef TRIREME_TESTED_ON_CUDA
inline constexpr bool kTriesCuda = true;
#else
inline constexpr bool kTriesCuda = false;
#endif
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Bytes before and after the tensors that are held from here on: one float64 off what
// vectors would like, unless somebody asks for what they do like.
inline std::ptrdiff_t& guard_of_tensors() {
  static std::ptrdiff_t bytes = 72;
  return bytes;
}

// Calls body(stream) on every platform present; on CUDA, where kernels choose by how tensors
// are aligned, once for tensors on no particular alignment and once for well aligned ones.
template <class Body>
void on_every_platform(const Body& body) {
#ifdef TRIREME_TESTED_ON_CUDA
  if (cuda_devices().count == 0) GTEST_SKIP() << cuda_devices().reason;
  const std::ptrdiff_t usual = guard_of_tensors();
  for (const std::ptrdiff_t guard : {usual, std::ptrdiff_t{128}}) {
    SCOPED_TRACE(say("on CUDA, tensors at ", guard, " bytes"));
    guard_of_tensors() = guard;
    Stream stream{Device{Device::Kind::kCuda, 0}};
    body(stream);
    stream.synchronize();
  }
  guard_of_tensors() = usual;
#else
  const simd::Isa usual = simd::selected();
  for (const simd::Isa isa : {simd::Isa::kBaseline, simd::Isa::kAvx2, simd::Isa::kAvx512}) {
    if (!simd::present(isa)) continue;
    SCOPED_TRACE(say("on the CPU, ", simd::name_of(isa)));
    simd::select(isa);
    Stream stream{Device{}};
    body(stream);
    stream.synchronize();
  }
  simd::select(usual);
#endif
}

// Calls body(stream, dtype) on every platform for every floating dtype.
template <class Body>
void on_every_platform_and_dtype(const Body& body) {
  on_every_platform([&](Stream& stream) {
    for (const DType dtype : kFloats) {
      SCOPED_TRACE(name_of(dtype));
      body(stream, dtype);
    }
  });
}

// Values as they are once stored in `dtype`.
inline double rounded(double value, DType dtype) {
  if (dtype == DType::kF32) return static_cast<double>(static_cast<float>(value));
  if (dtype == DType::kBf16) return static_cast<double>(float(Bf16(static_cast<float>(value))));
  if (dtype == DType::kF16) return static_cast<double>(float(F16(static_cast<float>(value))));
  return value;
}

// Roughly normal with deviation `spread`, rounded to `dtype`.
inline Values random_values(std::int64_t count, std::uint32_t seed, DType dtype = DType::kF64,
                            double spread = 1) {
  std::mt19937_64 random(seed);
  Values values(static_cast<std::size_t>(count));
  for (double& value : values) {
    // Three uniform numbers of 21 bits, their sum centred and of deviation 1/2.
    const std::uint64_t word = random();
    const std::uint64_t sum = (word & 0x1fffff) + (word >> 21 & 0x1fffff) + (word >> 42 & 0x1fffff);
    value = rounded((std::ldexp(static_cast<double>(sum), -21) - 1.5) * 2 * spread, dtype);
  }
  return values;
}

// A tensor that owns its memory, on no particular alignment, between guards that
// no op may touch. Without values it starts as NaN (int32: -1), which an op that
// should write everything must get rid of.
class Held {
 public:
  Held(Stream& stream, Shape shape, DType dtype, const Values& values = {})
      : stream_(stream),
        guard_(guard_of_tensors()),
        memory_(shape.count() * size_of(dtype) + 2 * guard_, stream.device()),
        tensor_{memory_.data() + guard_, dtype, shape, stream.device()} {
    require(values.empty() || static_cast<std::int64_t>(values.size()) == shape.count(),
            "values for another shape");
    std::vector<std::byte> image(memory_.bytes(), kMark);
    for (std::int64_t i = 0; i < shape.count(); ++i) {
      set(image, i,
          !values.empty() ? values[static_cast<std::size_t>(i)]
                          : (dtype == DType::kI32 ? -1 : kNan));
    }
    copy_bytes(stream_, memory_.data(), image.data(), image.size());
    stream_.synchronize();
  }
  ~Held() {
    const std::vector<std::byte> image = on_host();
    for (std::size_t i = 0; i < static_cast<std::size_t>(guard_); ++i) {
      if (image[i] == kMark && image[image.size() - 1 - i] == kMark) continue;
      ADD_FAILURE() << "written outside a tensor of shape " << say(tensor_.shape);
      break;
    }
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  operator Tensor() const { return tensor_; }  // NOLINT(google-explicit-constructor)

  // What the tensor holds when all work queued before is done.
  Values values() const {
    const std::vector<std::byte> image = on_host();
    Values all(static_cast<std::size_t>(tensor_.count()));
    for (std::int64_t i = 0; i < tensor_.count(); ++i) {
      all[static_cast<std::size_t>(i)] = get(image, i);
    }
    return all;
  }
  std::vector<std::byte> bits() const {
    const std::vector<std::byte> image = on_host();
    return {image.begin() + guard_, image.end() - guard_};
  }

 private:
  static constexpr std::byte kMark{0xa5};

  std::vector<std::byte> on_host() const {
    std::vector<std::byte> image(memory_.bytes());
    copy_bytes(stream_, image.data(), memory_.data(), image.size());
    stream_.synchronize();
    return image;
  }
  // Element i of a copy of the memory.
  template <class T>
  T read(const std::vector<std::byte>& image, std::int64_t i) const {
    T value;
    std::memcpy(&value, image.data() + guard_ + i * static_cast<std::int64_t>(sizeof(T)),
                sizeof(T));
    return value;
  }
  template <class T>
  void write(std::vector<std::byte>& image, std::int64_t i, T value) const {
    std::memcpy(image.data() + guard_ + i * static_cast<std::int64_t>(sizeof(T)), &value,
                sizeof(T));
  }
  double get(const std::vector<std::byte>& image, std::int64_t i) const {
    if (tensor_.dtype == DType::kF32) return static_cast<double>(read<float>(image, i));
    if (tensor_.dtype == DType::kF64) return read<double>(image, i);
    if (tensor_.dtype == DType::kI32) return read<std::int32_t>(image, i);
    if (tensor_.dtype == DType::kF16) return static_cast<double>(float(read<F16>(image, i)));
    return static_cast<double>(float(read<Bf16>(image, i)));
  }
  void set(std::vector<std::byte>& image, std::int64_t i, double value) const {
    if (tensor_.dtype == DType::kF32) {
      write(image, i, static_cast<float>(value));
    } else if (tensor_.dtype == DType::kF64) {
      write(image, i, value);
    } else if (tensor_.dtype == DType::kI32) {
      write(image, i, static_cast<std::int32_t>(value));
    } else if (tensor_.dtype == DType::kF16) {
      write(image, i, F16(static_cast<float>(value)));
    } else {
      write(image, i, Bf16(static_cast<float>(value)));
    }
  }
  Stream& stream_;
  std::ptrdiff_t guard_;
  Memory memory_;
  Tensor tensor_;
};

// Half the distance of 1 to the next number: what one rounding costs at most, relatively.
inline double roundoff(DType dtype) {
  return dtype == DType::kF64   ? 0x1p-53
         : dtype == DType::kF32 ? 0x1p-24
         : dtype == DType::kF16 ? 0x1p-11
                                : 0x1p-8;
}

// Every value was computed in its accumulator dtype with an error of at most
// `roundings` roundings of numbers as large as `scale` (0: as the largest expected
// value), and then stored with one rounding of its own dtype. NaN matches NaN.
inline void expect_values(const Held& actual, const Values& expected, double roundings,
                          double scale = 0) {
  const Tensor tensor = actual;
  const Values got = actual.values();
  ASSERT_EQ(got.size(), expected.size());
  if (scale == 0) {
    for (const double value : expected) {
      if (std::isfinite(value)) scale = std::max(scale, std::fabs(value));
    }
  }
  const double computed = roundings * roundoff(accumulator_of(tensor.dtype)) * scale;
  const double denormal = tensor.dtype == DType::kF64   ? 0x1p-1074
                          : tensor.dtype == DType::kF16 ? 0x1p-25
                                                        : 0x1p-133;
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(expected[i]) || std::isinf(expected[i])) {
      ASSERT_TRUE(std::isnan(expected[i]) ? std::isnan(got[i]) : got[i] == expected[i])
          << "at " << i << ": " << got[i] << " instead of " << expected[i];
      continue;
    }
    // A hair more for the reference's own roundings.
    const double allowed =
        (computed + roundoff(tensor.dtype) * (std::fabs(expected[i]) + computed)) * 1.001 +
        denormal;
    const double error = std::fabs(got[i] - expected[i]);
    ASSERT_TRUE(error <= allowed) << "at " << i << ": " << got[i] << " instead of " << expected[i]
                                  << ", off by " << error << ", allowed " << allowed;
    worst = std::max(worst, error / allowed);
  }
  ::testing::Test::RecordProperty("worst_share_of_tolerance", std::to_string(worst));
}

// Whether `gradient` is the derivative of `loss` at x, by central differences of
// fourth order: steps of 1e-3 leave about 1e-12 of truncation and 1e-12 of
// rounding in float64, so 1e-7 of the largest derivative is told from any mistake.
inline void expect_gradient(const std::function<double(const Values&)>& loss, Values x,
                            const Values& gradient) {
  ASSERT_EQ(x.size(), gradient.size());
  constexpr double kStep = 1e-3, kRelative = 1e-7;
  double scale = 1e-3;
  for (const double value : gradient) scale = std::max(scale, std::fabs(value));
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double here = x[i];
    const auto slope = [&](double step) {
      x[i] = here + step;
      const double above = loss(x);
      x[i] = here - step;
      const double below = loss(x);
      x[i] = here;
      return (above - below) / (2 * step);
    };
    const double numeric = (4 * slope(kStep) - slope(2 * kStep)) / 3;
    ASSERT_NEAR(gradient[i], numeric, kRelative * scale) << "at " << i;
  }
}

inline double dot(const Values& a, const Values& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Runs `body`, which returns an op's output bits, with 1, 2 and 3 threads.
inline void expect_thread_independent(const std::function<std::vector<std::byte>()>& body) {
  const int usual = omp_get_max_threads();
  omp_set_num_threads(1);
  const std::vector<std::byte> alone = body();
  for (const int threads : {2, 3}) {
    omp_set_num_threads(threads);
    EXPECT_TRUE(body() == alone) << threads << " threads give other bits than one";
  }
  omp_set_num_threads(usual);
}

inline std::vector<std::byte> joined(const std::vector<const Held*>& tensors) {
  std::vector<std::byte> all;
  for (const Held* tensor : tensors) {
    const std::vector<std::byte> bits = tensor->bits();
    all.insert(all.end(), bits.begin(), bits.end());
  }
  return all;
}

}  // namespace trireme::test
