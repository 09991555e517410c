#include "trainer/loop/gemm_choices.h"

#include "model/base/file.h"
#include "model/base/log.h"
#include "model/ops/gemm_choices.h"

namespace trireme {

GemmChoices::GemmChoices(const std::filesystem::path& run_folder, const Team& team, RunLog& log)
    : path_(run_folder / "gemm_choices.json"), team_(team), log_(log) {}

void GemmChoices::load() {
  shared_ = team_.led([&]() -> std::string {
    if (!std::filesystem::exists(path_)) return {};
    try {
      const std::string text = read_text(path_);
      ops::merged_gemm_choices(std::span(&text, 1));  // throws if damaged
      return text;
    } catch (const Error& error) {
      // A cache: its choices are measured again, and the next step overwrites the file.
      log_warning("{}: {}; measuring again, a resumed run may differ in the last bits",
                  path_.string(), error.what());
      return {};
    }
  });
  if (!shared_.empty()) ops::use_gemm_choices(shared_);
}

bool GemmChoices::changed() const {
  return ops::gemm_choices() != shared_ || !written_;
}

void GemmChoices::share(std::int64_t step) {
  const std::string text =
      ops::merged_gemm_choices(team_.together([] { return ops::gemm_choices(); }));
  ops::use_gemm_choices(text);
  try {
    if (team_.leads()) replace_text(path_, text);
    written_ = true;
  } catch (const Error& error) {
    // Warned of once; tried again after the next step.
    if (written_) {
      log_.warn(step, say("a resumed run may differ in the last bits: ", error.what()));
    }
    written_ = false;
  }
  shared_ = text;
}

}  // namespace trireme
