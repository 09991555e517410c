#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>
#include <xxhash.h>

#include <filesystem>
#include <map>

#include "model/base/error.h"
#include "model/base/file.h"
#include "parallel/comm/versions.h"
#include "trainer/supervise/preflight/check.h"

namespace trireme::preflight {
namespace {

std::string hash_of(std::span<const std::byte> bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

int add_library(dl_phdr_info* info, std::size_t /*size*/, void* into) {
  namespace fs = std::filesystem;
  std::error_code why;
  const fs::path path = fs::canonical(info->dlpi_name, why);
  if (why) return 0;  // the program itself or the vDSO
  const auto size = fs::file_size(path, why);
  (*static_cast<Figures*>(into))[path.filename().string()] = why ? 0 : size;
  return 0;
}

// Maps each loaded shared library to its size in bytes. Symbolic links are resolved: the full name,
// such as libmpi.so.40.30.4, includes the version.
Figures loaded_libraries() {
  Figures libraries = Figures::object();
  ::dl_iterate_phdr(add_library, &libraries);
  return libraries;
}

// Describes the libraries of a rank that are missing, extra or of a different size.
std::string different_libraries(const Figures& usual, const Figures& own) {
  std::vector<std::string> names;
  for (const auto& [name, size] : usual.items()) {
    if (!own.contains(name)) names.push_back(say("missing ", name));
  }
  for (const auto& [name, size] : own.items()) {
    if (!usual.contains(name) || usual[name] != size) names.push_back(say("different ", name));
  }
  constexpr std::size_t kMost = 3;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", names[i]);
  }
  return names.size() > kMost ? text + fmt::format(" and {} more", names.size() - kMost) : text;
}

Judgment judge_programs(const std::vector<Figures>& by_rank) {
  Judgment judgment;
  for (const auto& [key, what] : std::map<std::string, std::string>{
           {"program", "a different trireme binary"}, {"config", "a different config"}}) {
    const Majority found = majority(texts_of(by_rank, key));
    if (found.others.empty()) continue;
    judgment.faults.push_back({found.others, say(what, " than the other ranks")});
  }
  std::vector<std::string> libraries;
  for (const Figures& figures : by_rank) libraries.push_back(figures.at("libraries").dump());
  const Majority usual = majority(libraries);
  for (const int rank : usual.others) {
    judgment.faults.push_back(
        {{rank},
         say("different libraries than the other ranks: ",
             different_libraries(Figures::parse(usual.value), by_rank[rank].at("libraries")))});
  }
  const Figures& first = by_rank.front();
  judgment.text =
      fmt::format("trireme {}, config {}, {} libraries, {}", first["program"].get<std::string>(),
                  first["config"].get<std::string>(), first["libraries"].size(),
                  first["mpi"].get<std::string>());
  return judgment;
}

}  // namespace

Check same_program(const std::string& config_text) {
  const auto measure = [&config_text]() -> Figures {
    const MappedFile program("/proc/self/exe");
    return {{"program", hash_of(program.bytes())},
            {"config", hash_of(std::as_bytes(std::span(config_text)))},
            {"mpi", comm::mpi_version()},
            {"nccl", comm::nccl_version().running},
            {"libraries", loaded_libraries()}};
  };
  return {"program", measure, judge_programs};
}

}  // namespace trireme::preflight
