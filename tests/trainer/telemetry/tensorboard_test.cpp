#include "trainer/telemetry/tensorboard.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <limits>
#include <string>

#include "model/base/error.h"
#include "model/base/file.h"
#include "tests/trainer/telemetry/scratch_folder.h"

namespace trireme {
namespace {

// Runs a script of this folder; gives back its exit status.
int run_python(const std::string& script, const std::filesystem::path& argument) {
  const std::string command =
      std::string(PYTHON " -B " HERE "/") + script + " '" + argument.string() + "'";
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The run that read_events.py expects: 5 steps, killed, resumed after step 3.
void write_run(const std::filesystem::path& folder) {
  StepMetrics metrics;
  const auto log = [&](TensorBoard& board, std::int64_t step, double loss) {
    metrics.step = step;
    metrics.tokens = step * 300;
    metrics.loss = loss;
    metrics.grad_norm = step == 2 ? std::numeric_limits<double>::infinity() : 0.5;
    metrics.mfu = 0.25;
    metrics.memory_peak_bytes = std::uint64_t{3} << 30;
    metrics.validation_loss.reset();
    if (step % 2 == 0) metrics.validation_loss = loss + 1;
    metrics.validation_sets = {{"web", 2.5, 1.5, 640}};
    metrics.more = {{"aux_loss", 0.125}, {"accuracy/quiz", 0.25}};
    board.step(metrics);
  };
  std::filesystem::path first;
  {
    TensorBoard board(folder, 0);
    first = board.path();
    for (const std::int64_t step : {1, 2, 3, 4, 5})
      log(board, step, static_cast<double>(10 - step));
  }
  // The two files of one process and second would be one: as after a real restart, the
  // second gets a later name.
  std::filesystem::rename(first, folder / "events.out.tfevents.0000000001.host.1");
  TensorBoard board(folder, 3);
  for (const std::int64_t step : {4, 5, 6, 300}) log(board, step, static_cast<double>(20 - step));
}

TEST(TensorBoard, checksums_are_the_published_ones) {
  // CRC32C of RFC 3720, B.4, before the mask.
  const auto masked = [](std::uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; };
  EXPECT_EQ(masked_crc32c(std::string(32, '\0')), masked(0x8a9136aau));
  EXPECT_EQ(masked_crc32c(std::string(32, '\xff')), masked(0x62a8ab43u));
  EXPECT_EQ(masked_crc32c("123456789"), masked(0xe3069283u));
  EXPECT_EQ(masked_crc32c(""), masked(0));
}

TEST(TensorBoard, an_independent_reader_finds_every_scalar) {
  const ScratchFolder folder;
  write_run(folder.path());
  EXPECT_EQ(run_python("read_events.py", folder.path()), 0);
}

TEST(TensorBoard, tensorboard_itself_shows_the_resumed_run) {
  const ScratchFolder folder;
  write_run(folder.path());
  constexpr int kSkipped = 77;
  const int status = run_python("read_by_tensorboard.py", folder.path());
  if (status == kSkipped) GTEST_SKIP() << "needs tensorboard (PyPI); scripts/setup test fetches it";
  EXPECT_EQ(status, 0);
}

TEST(TensorBoard, an_unwritable_folder_is_an_environment_error) {
  EXPECT_THROW(TensorBoard("/proc/tensorboard", 0), EnvironmentError);
}

}  // namespace
}  // namespace trireme
