#include "trainer/telemetry/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <cstring>

#include "model/base/error.h"
#include "model/base/file.h"
#include "model/base/host_name.h"

extern "C" {
#include <isa-l/crc.h>
}

namespace trireme {
namespace {

// Wire types of Protocol Buffers that Event uses.
enum class Wire : unsigned { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

template <class T>
void put_raw(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}
void put_tag(std::string& out, unsigned field, Wire wire) {
  put_varint(out, field << 3 | static_cast<unsigned>(wire));
}
void put_bytes(std::string& out, unsigned field, std::string_view bytes) {
  put_tag(out, field, Wire::kBytes);
  put_varint(out, bytes.size());
  out.append(bytes);
}

// Event: wall_time = 1, step = 2; one of file_version = 3, summary = 5, session_log = 7.
std::string event(std::int64_t step, unsigned field, std::string_view content) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::string out;
  put_tag(out, 1, Wire::kFixed64);
  put_raw(out, now.count());
  if (step != 0) {
    put_tag(out, 2, Wire::kVarint);
    put_varint(out, static_cast<std::uint64_t>(step));
  }
  put_bytes(out, field, content);
  return out;
}

// Summary: value = 1, repeated; Summary.Value: tag = 1, simple_value = 2.
void put_scalar(std::string& summary, std::string_view tag, double value) {
  std::string one;
  put_bytes(one, 1, tag);
  put_tag(one, 2, Wire::kFixed32);
  put_raw(one, static_cast<float>(value));
  put_bytes(summary, 1, one);
}

std::filesystem::path new_file(const std::filesystem::path& folder) {
  make_folders(folder);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
                           std::chrono::system_clock::now().time_since_epoch())
                           .count();
  return folder /
         fmt::format("events.out.tfevents.{:010}.{}.{}", seconds, own_host_name(), ::getpid());
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  // crc32_iscsi computes the plain remainder, so invert before and after. It only reads, although
  // its parameter is not const.
  auto* data = reinterpret_cast<unsigned char*>(const_cast<char*>(bytes.data()));
  const std::uint32_t crc = ~crc32_iscsi(data, static_cast<int>(bytes.size()), ~0u);
  return std::rotr(crc, 15) + 0xa282ead8u;
}

std::string tf_record(std::string_view bytes) {
  std::string length;
  put_raw(length, std::uint64_t{bytes.size()});
  std::string out = length;
  put_raw(out, masked_crc32c(length));
  out.append(bytes);
  put_raw(out, masked_crc32c(bytes));
  return out;
}

TensorBoard::TensorBoard(const std::filesystem::path& folder, std::int64_t last_step)
    : path_(new_file(folder)), file_(path_) {
  file_.append(tf_record(event(0, 3, "brain.Event:2")));
  if (last_step > 0) {
    // SessionLog{status = 1: START}: what was logged of this step and later is void.
    file_.append(tf_record(event(last_step + 1, 7, std::string_view("\x08\x01", 2))));
  }
}

void TensorBoard::step(const StepMetrics& metrics) {
  constexpr double kGib = 1u << 30;
  std::string summary;
  const auto scalar = [&](std::string_view tag, double value) { put_scalar(summary, tag, value); };
  scalar("loss/train", metrics.loss);
  if (metrics.validation_loss) scalar("loss/validation", *metrics.validation_loss);
  if (metrics.validation_bits_per_byte) {
    scalar("loss/bits_per_byte", *metrics.validation_bits_per_byte);
  }
  for (const MeasuredSet& set : metrics.validation_sets) {
    scalar("validation_loss/" + set.name, set.loss);
    if (set.bits_per_byte) scalar("validation_bits_per_byte/" + set.name, *set.bits_per_byte);
  }
  scalar("optimizer/grad_norm", metrics.grad_norm);
  scalar("optimizer/lr", metrics.lr);
  scalar("speed/tokens_per_second", metrics.tokens_per_second);
  scalar("speed/step_seconds", metrics.step_seconds);
  if (metrics.mfu > 0) scalar("speed/mfu_percent", 100 * metrics.mfu);
  if (metrics.hfu > 0) scalar("speed/hfu_percent", 100 * metrics.hfu);
  scalar("memory/peak_gib", static_cast<double>(metrics.memory_peak_bytes) / kGib);
  scalar("memory/process_peak_gib", static_cast<double>(metrics.process_peak_bytes) / kGib);
  scalar("progress/tokens", static_cast<double>(metrics.tokens));
  for (const auto& [key, value] : metrics.more) {
    scalar(key.find('/') == std::string::npos ? "more/" + key : key, value);
  }
  file_.append(tf_record(event(metrics.step, 5, summary)));
}

}  // namespace trireme
