#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "trainer/telemetry/record_file.h"
#include "trainer/telemetry/step_metrics.h"

namespace trireme {

// A TensorBoard event file: TFRecords (length, masked CRC32C, bytes, masked CRC32C)
// of Event messages, written by hand because Debian has no writer for them.
//   tag                      value
//   loss/train               loss
//   loss/validation          validation_loss, where there is one
//   loss/bits_per_byte       validation_bits_per_byte, where there is one
//   validation_loss/NAME     and validation_bits_per_byte/NAME, of validation sets with a name
//   optimizer/grad_norm      grad_norm
//   optimizer/lr             lr
//   speed/tokens_per_second  tokens_per_second
//   speed/step_seconds       step_seconds
//   speed/mfu_percent        100 * mfu, where the peak is known
//   speed/hfu_percent        100 * hfu, where the peak is known
//   memory/peak_gib          memory_peak_bytes
//   memory/process_peak_gib  process_peak_bytes
//   progress/tokens          tokens
//   more/KEY                 each of `more`
class TensorBoard {
 public:
  // Starts a new file in `folder` (made when missing). With `last_step` > 0, a mark
  // makes viewers forget what earlier files say of later steps. Throws
  // EnvironmentError; afterwards a full disk is handled as RecordFile does.
  TensorBoard(const std::filesystem::path& folder, std::int64_t last_step);

  void step(const StepMetrics& metrics);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  RecordFile file_;
};

// Pieces of the format, for the tests.
std::uint32_t masked_crc32c(std::string_view bytes);
std::string tf_record(std::string_view bytes);

}  // namespace trireme
