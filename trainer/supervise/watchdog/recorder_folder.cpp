#include "trainer/supervise/watchdog/recorder_folder.h"

#include <algorithm>

#include "model/base/error.h"
#include "model/base/file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

// "rank-00003"; ranks beyond 99999 have more digits.
bool is_ledger_name(const std::string& name) {
  constexpr std::size_t kPrefix = 5, kLeastDigits = 5, kMostDigits = 7;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return name.starts_with("rank-") && name.size() >= kPrefix + kLeastDigits &&
         name.size() <= kPrefix + kMostDigits &&
         std::all_of(name.begin() + kPrefix, name.end(), is_digit);
}

fs::path previous(const fs::path& recorder, int age) {
  return recorder / say("previous-", age);
}

void put_aside(const fs::path& recorder) {
  std::vector<fs::path> old;
  for (const fs::directory_entry& entry : fs::directory_iterator(recorder)) {
    const std::string name = entry.path().filename().string();
    if (is_ledger_name(name)) old.push_back(entry.path());
    if (name.starts_with("rank-") && name.ends_with(".new")) fs::remove(entry.path());
  }
  if (old.empty()) return;
  fs::remove_all(previous(recorder, kPreviousRecorders));
  for (int age = kPreviousRecorders - 1; age > 0; --age) {
    if (fs::exists(previous(recorder, age))) {
      fs::rename(previous(recorder, age), previous(recorder, age + 1));
    }
  }
  const fs::path to = previous(recorder, 1);
  fs::create_directory(to);
  for (const fs::path& recording : old) fs::rename(recording, to / recording.filename());
}

}  // namespace

void archive_recordings(const fs::path& recorder) {
  make_folders(recorder);
  try {
    put_aside(recorder);
  } catch (const fs::filesystem_error& error) {
    throw EnvironmentError(
        say("cannot move old recordings in ", recorder.string(), ": ", error.code().message()));
  }
}

std::vector<fs::path> recordings_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code why;
  for (fs::directory_iterator it(folder, why), end; !why && it != end; it.increment(why)) {
    if (is_ledger_name(it->path().filename().string())) found.push_back(it->path());
  }
  if (why) throw EnvironmentError(say("cannot read ", folder.string(), ": ", why.message()));
  std::sort(found.begin(), found.end(), [](const fs::path& a, const fs::path& b) {
    return a.string().size() != b.string().size() ? a.string().size() < b.string().size() : a < b;
  });
  return found;
}

}  // namespace trireme
