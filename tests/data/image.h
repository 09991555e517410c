#pragma once
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::data {

// An .idx written field by field, so that every field can be wrong.
struct IndexImage {
  std::string magic{"MMIDIDX\0\0", 9};
  std::uint64_t version = 1;
  std::uint8_t code = 8;
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> pointers;
  std::vector<std::int64_t> bounds;
  std::int64_t more_sequences = 0, more_bounds = 0;  // announced, but not there

  std::string bytes() const {
    std::string image = magic;
    const auto put = [&](auto value) {
      image.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    put(version);
    put(code);
    put(static_cast<std::uint64_t>(lengths.size()) + static_cast<std::uint64_t>(more_sequences));
    put(static_cast<std::uint64_t>(bounds.size()) + static_cast<std::uint64_t>(more_bounds));
    for (const auto length : lengths) put(length);
    for (const auto pointer : pointers) put(pointer);
    for (const auto bound : bounds) put(bound);
    return image;
  }
};

// Tokens as the type of `zero` lays them out.
template <class T>
std::string token_image(const std::vector<T>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof(T)};
}

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A folder that goes away with the test.
class Folder {
 public:
  Folder() {
    static int count = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("trireme-data-" + std::to_string(::getpid()) + "-" + std::to_string(count++));
    std::filesystem::create_directories(path_);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  std::string write(const std::string& name, std::string_view text) const {
    const auto path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary)
        .write(text.data(), static_cast<std::streamsize>(text.size()));
    return path.string();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      found.push_back(entry.path().filename().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  }

 private:
  std::filesystem::path path_;
};

// What an action complains about as `E`; "" when it does not.
template <class E, class Action>
std::string complaint(Action&& action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "";
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace trireme::data
