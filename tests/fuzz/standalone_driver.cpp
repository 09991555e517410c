// Runs a libFuzzer target where libFuzzer is not at hand:
//   TARGET SECONDS|COUNTx [SEED] CORPUS...
// replays every file of the corpus, then feeds it random mutations of them: for about SECONDS, or
// COUNT of them ("5000x"). The same seed, or TRIREME_SEED where none is given, tries the same
// inputs in the same order. An input that kills the process is left in <target>-crash-input in the
// current folder.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
#if defined(__SANITIZE_ADDRESS__)
extern "C" void __sanitizer_set_death_callback(void (*)());
#endif

namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::size_t kLongest = 1 << 16;

// The input being tried, for the death callback, which has no other way to reach it.
const Bytes* g_trying = nullptr;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
std::string g_crash_file;         // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void keep_input() {
  if (g_trying == nullptr) return;
  FILE* file = std::fopen(g_crash_file.c_str(), "wb");
  if (file == nullptr) return;
  std::fwrite(g_trying->data(), 1, g_trying->size(), file);
  std::fclose(file);
  std::fprintf(stderr, "the input is in %s\n", g_crash_file.c_str());
  g_trying = nullptr;
}

void on_abort(int) {
  keep_input();
  _exit(134);
}

void try_input(const Bytes& input) {
  g_trying = &input;
  try {
    LLVMFuzzerTestOneInput(input.data(), input.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "escaped from the target: %s\n", error.what());
    std::abort();
  }
  g_trying = nullptr;
}

std::vector<Bytes> read_corpus(const std::vector<std::filesystem::path>& folders) {
  std::vector<std::filesystem::path> files;
  for (const auto& folder : folders) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.is_regular_file()) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  std::vector<Bytes> corpus;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return corpus;
}

class Mutator {
 public:
  Mutator(const std::vector<Bytes>& corpus, std::uint64_t seed) : corpus_(corpus), random_(seed) {}

  Bytes next() {
    Bytes input = pick();
    const std::size_t changes = 1 + below(6);
    for (std::size_t i = 0; i < changes; ++i) change(input);
    if (input.size() > kLongest) input.resize(kLongest);
    return input;
  }

 private:
  std::size_t below(std::size_t n) { return n == 0 ? 0 : static_cast<std::size_t>(random_() % n); }

  const Bytes& pick() {
    static const Bytes kNothing;
    return corpus_.empty() ? kNothing : corpus_[below(corpus_.size())];
  }

  void change(Bytes& input) {
    switch (below(8)) {
      case 0:
        return flip_bit(input);
      case 1:
        return set_byte(input);
      case 2:
        return erase(input);
      case 3:
        return repeat(input);
      case 4:
        return splice(input);
      case 5:
        return write_number(input);
      case 6:
        return insert_byte(input);
      default:
        return input.resize(below(input.size() + 1));
    }
  }

  void flip_bit(Bytes& input) {
    if (!input.empty()) input[below(input.size())] ^= static_cast<std::uint8_t>(1u << below(8));
  }

  void set_byte(Bytes& input) {
    if (!input.empty()) input[below(input.size())] = interesting_byte();
  }

  std::uint8_t interesting_byte() {
    constexpr char kMarks[] = "\"'[]{}=.,#\n\\-+0 19eE_:\t\0\xff\x7f\x80";
    if (below(2) == 0) return static_cast<std::uint8_t>(random_());
    return static_cast<std::uint8_t>(kMarks[below(sizeof kMarks - 1)]);
  }

  void insert_byte(Bytes& input) {
    input.insert(input.begin() + below(input.size() + 1), interesting_byte());
  }

  void erase(Bytes& input) {
    const std::size_t from = below(input.size());
    const std::size_t count = below(std::min<std::size_t>(input.size() - from, 32) + 1);
    input.erase(input.begin() + from, input.begin() + from + count);
  }

  void repeat(Bytes& input) {
    const std::size_t from = below(input.size());
    const std::size_t count = below(std::min<std::size_t>(input.size() - from, 64) + 1);
    const Bytes part(input.begin() + from, input.begin() + from + count);
    const std::size_t times = 1 + below(below(16) == 0 ? 256 : 4);
    for (std::size_t i = 0; i < times && input.size() < kLongest; ++i) {
      input.insert(input.begin() + from, part.begin(), part.end());
    }
  }

  // The front of this input and the back of another.
  void splice(Bytes& input) {
    const Bytes& other = pick();
    input.resize(below(input.size() + 1));
    input.insert(input.end(), other.begin() + below(other.size() + 1), other.end());
  }

  // A binary integer of the kind that headers go wrong at.
  void write_number(Bytes& input) {
    constexpr std::uint64_t kNumbers[] = {0,          1,          0x7f,       0xffff,
                                          0x7fffffff, 0x80000000, 0xffffffff, 0x7fffffffffffffff,
                                          ~0ull,      1ull << 40};
    const std::uint64_t number = below(2) == 0 ? random_() >> below(64) : kNumbers[below(10)];
    const std::size_t width = std::size_t{1} << below(4);
    if (input.size() < width) return;
    std::memcpy(input.data() + below(input.size() - width + 1), &number, width);
  }

  const std::vector<Bytes>& corpus_;
  std::mt19937_64 random_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s SECONDS|COUNTx [SEED] CORPUS...\n", argv[0]);
    return 2;
  }
  const std::string much = argv[1];
  const bool counted = much.ends_with('x');
  const double seconds = counted ? 1e9 : std::atof(argv[1]);
  const std::uint64_t most = counted ? std::strtoull(argv[1], nullptr, 10) : ~0ull;
  const char* drawn = std::getenv("TRIREME_SEED");
  std::uint64_t seed = drawn == nullptr ? 1 : std::strtoull(drawn, nullptr, 10);
  std::vector<std::filesystem::path> folders;
  for (int i = 2; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.find_first_not_of("0123456789") == std::string::npos) {
      seed = std::strtoull(argv[i], nullptr, 10);
    } else {
      folders.emplace_back(word);
    }
  }
  g_crash_file = std::filesystem::path(argv[0]).filename().string() + "-crash-input";
  signal(SIGABRT, on_abort);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(keep_input);
#else
  signal(SIGSEGV, on_abort);
#endif

  const std::vector<Bytes> corpus = read_corpus(folders);
  for (const Bytes& input : corpus) try_input(input);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  Mutator mutator(corpus, seed);
  std::uint64_t tried = 0;
  for (; tried < most && std::chrono::steady_clock::now() < end; ++tried) try_input(mutator.next());
  std::printf("%zu inputs of the corpus and %llu mutations, seed %llu: no complaint\n",
              corpus.size(), static_cast<unsigned long long>(tried),
              static_cast<unsigned long long>(seed));
  return corpus.empty() ? 2 : 0;
}
