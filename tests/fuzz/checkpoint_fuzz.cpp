#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "checkpoint/format/manifest.h"
#include "checkpoint/read/load.h"
#include "checkpoint/read/statistics.h"
#include "checkpoint/store/diff.h"
#include "model/base/error.h"
#include "model/base/file.h"
#include "tests/checkpoint/state.h"

namespace {

namespace fs = std::filesystem;
using namespace trireme::checkpoint;

// A run folder with one good checkpoint, and the bytes of its files.
class Run {
 public:
  Run() {
    {
      const Lease lease(scratch_.path());
      Store store(scratch_.path(), lease);
      commit(store, good_, 1);
    }
    fs::copy(folder(), scratch_.path() / "copy", fs::copy_options::recursive);
    for (const char* name : kFiles) texts_.push_back(trireme::read_text(folder() / name));
    const std::size_t seal = texts_[0].rfind(',');
    body_ = texts_[0].substr(0, seal);
  }
  fs::path folder() const { return scratch_.path() / "checkpoints/step-00000001"; }
  fs::path copy() const { return scratch_.path() / "copy"; }
  const fs::path& path() const { return scratch_.path(); }
  const State& good() const { return good_; }
  const std::string& manifest() const { return texts_[0]; }

  // Each four bytes of `data` are a file, a place and a new byte there; the last file stands
  // for a manifest whose seal fits.
  void damage(const std::uint8_t* data, std::size_t size) {
    std::vector<std::string> texts = texts_;
    std::string body = body_;
    bool sealed_again = false;
    for (std::size_t at = 0; at + 4 <= size; at += 4) {
      const std::size_t which = data[at] % (texts.size() + 1);
      std::string& text = which < texts.size() ? texts[which] : body;
      sealed_again |= which == texts.size();
      text[(data[at + 1] * std::size_t{256} + data[at + 2]) % text.size()] =
          static_cast<char>(data[at + 3]);
    }
    if (sealed_again) texts[0] = sealed(body);
    for (std::size_t i = 0; i < texts.size(); ++i) {
      std::ofstream(folder() / kFiles[i], std::ios::binary | std::ios::trunc) << texts[i];
    }
  }

 private:
  static constexpr const char* kFiles[] = {"manifest.json", "state.h5", "shard-00000-of-00001.h5"};
  Scratch scratch_{fs::exists("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path()};
  State good_{31};
  std::vector<std::string> texts_;
  std::string body_;
};

template <class Work>
void try_to(const Work& work) {
  try {
    work();
  } catch (const trireme::Error& error) {
    if (std::string(error.what()).empty()) std::abort();
  }
}

}  // namespace

// Whatever is done to the files of a checkpoint, its readers come to an end with an answer
// or one Error, and what they load is what was stored.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Run run;
  run.damage(data, std::min<std::size_t>(size, 256));
  try_to([&] { problems_of(run.folder()); });
  try_to([&] {
    State loaded;
    const auto found = Store(run.path()).load_newest(loaded.pieces());
    // A manifest as it was written answers for the bytes.
    const bool sound = found && to_text(found->manifest) == run.manifest();
    if (sound && !(loaded == run.good())) std::abort();
  });
  try_to([&] { statistics_of(run.folder(), "model/embed.weight"); });
  try_to([&] { compare(run.folder(), run.copy()); });
  return 0;
}
