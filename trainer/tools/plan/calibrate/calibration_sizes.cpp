#include "trainer/tools/plan/calibrate/calibration_sizes.h"

namespace trireme {
namespace {

constexpr std::size_t kMega = std::size_t{1} << 20;

const CalibrationSizes& of_cpu() {
  static const CalibrationSizes kSizes{
      .products = {{128, 128, 128},
                   {64, 512, 512},
                   {512, 512, 64},
                   {256, 512, 128},
                   {512, 128, 512},
                   {512, 512, 256},
                   {1024, 256, 256},
                   {256, 1024, 256},
                   {256, 256, 1024},
                   {512, 1536, 512},
                   {512, 512, 2048},
                   {1024, 1024, 1024}},
      .grouped = {{8, {16, 256, 256}},
                  {8, {64, 256, 256}},
                  {4, {128, 256, 128}},
                  {8, {32, 512, 256}},
                  {4, {256, 256, 512}},
                  {8, {128, 1024, 256}},
                  {8, {64, 256, 1024}}},
      .attention = {{32, 128}, {32, 512}, {64, 256}, {64, 512}, {128, 256}},
      .attention_tokens = 1024,
      .attention_hidden = 256,
      .stream_rows = 512,
      .stream_width = 512,
      .words = 1024,
      .stream_heads = {8, 8, 64},
      .numbers_below = 512,
      .updated = std::int64_t{1} << 21,
      .much = std::int64_t{1} << 20,
      .little = std::int64_t{1} << 16,
      // Three times a last-level cache of 32 MiB: in a step, weights come from memory.
      .spread = 96 * kMega,
      .arena = 256 * kMega,
      .activations = kMega / 2,
      .bucket = 4 * kMega};
  return kSizes;
}

const CalibrationSizes& of_gpu() {
  static const CalibrationSizes kSizes{
      .products = {{1024, 1024, 1024},
                   {2048, 2048, 2048},
                   {8192, 2048, 2048},
                   {4096, 8192, 2048},
                   {8192, 2048, 8192},
                   {8192, 6144, 4096},
                   {8192, 4096, 4096},
                   {8192, 16384, 4096},
                   {8192, 4096, 14336},
                   {2048, 32768, 2048}},
      .grouped = {{8, {512, 4096, 2048}},
                  {8, {2048, 4096, 2048}},
                  {32, {256, 1536, 4096}},
                  {64, {128, 1408, 2048}},
                  {64, {512, 1408, 2048}},
                  {16, {1024, 2048, 4096}}},
      .attention = {{64, 1024}, {64, 4096}, {128, 2048}, {128, 4096}, {128, 8192}},
      .attention_tokens = 8192,
      .attention_hidden = 4096,
      .stream_rows = 8192,
      .stream_width = 4096,
      .words = 32768,
      .stream_heads = {32, 8, 128},
      .numbers_below = 8192,
      .updated = std::int64_t{1} << 26,
      .much = std::int64_t{1} << 26,
      .little = std::int64_t{1} << 22,
      .spread = 192 * kMega,
      .arena = 3072 * kMega,
      .activations = 64 * kMega,
      .bucket = 256 * kMega};
  return kSizes;
}

}  // namespace

const CalibrationSizes& calibration_sizes(Device device) {
  return device.is_cuda() ? of_gpu() : of_cpu();
}

}  // namespace trireme
