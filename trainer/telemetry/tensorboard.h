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

// A TensorBoard event file: TFRecords (length, masked CRC32C, bytes, masked CRC32C) of Event
// messages. Written directly because Debian has no library for it.
//   tag                      value
//   loss/train               loss
//   loss/validation          validation_loss, if measured
//   loss/bits_per_byte       validation_bits_per_byte, if measured
//   validation_loss/NAME     and validation_bits_per_byte/NAME, for named validation sets
//   optimizer/grad_norm      grad_norm
//   optimizer/lr             lr
//   speed/tokens_per_second  tokens_per_second
//   speed/step_seconds       step_seconds
//   speed/mfu_percent        100 * mfu, if the peak is known
//   speed/hfu_percent        100 * hfu, if the peak is known
//   memory/peak_gib          memory_peak_bytes
//   memory/process_peak_gib  process_peak_bytes
//   progress/tokens          tokens
//   more/KEY                 each of `more`
class TensorBoard {
 public:
  // Creates a new file in `folder`, and the folder if it is missing. With `last_step` > 0 a session
  // mark makes viewers discard later steps of earlier files. Throws EnvironmentError; later write
  // errors are handled by RecordFile.
  TensorBoard(const std::filesystem::path& folder, std::int64_t last_step);

  void step(const StepMetrics& metrics);

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  RecordFile file_;
};

// Parts of the format, exposed for tests.
std::uint32_t masked_crc32c(std::string_view bytes);
std::string tf_record(std::string_view bytes);

}  // namespace trireme
