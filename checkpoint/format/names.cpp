#include "checkpoint/format/names.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>

#include "model/base/error.h"

namespace trireme::checkpoint {
namespace {

constexpr std::string_view kStep = "step-";
constexpr std::size_t kStepDigits = 8;  // minimum: names sort correctly up to 99,999,999 steps

bool is_hex(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

bool is_part(std::string_view part) {
  return !part.empty() && part != "." && part != ".." &&
         std::all_of(part.begin(), part.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '.' || c == '-';
         });
}

}  // namespace

std::string step_name(std::int64_t step) {
  const std::string digits = std::to_string(step);
  const std::size_t missing = digits.size() < kStepDigits ? kStepDigits - digits.size() : 0;
  return say(kStep, std::string(missing, '0'), digits);
}

std::optional<std::int64_t> step_of(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  const std::string_view digits = name.substr(kStep.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc{} || step < 0 || step_name(step) != name) return std::nullopt;
  return step;
}

std::string shard_name(std::size_t shard, std::size_t of) {
  const auto five = [](std::size_t number) {
    const std::string digits = std::to_string(number);
    return std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
  };
  return say("shard-", five(shard), "-of-", five(of), ".h5");
}

std::string raw_shard_name(std::size_t shard, std::size_t of) {
  std::string name = shard_name(shard, of);
  return name.replace(name.rfind('.'), std::string::npos, ".raw");
}

bool is_tensor_name(std::string_view name) {
  constexpr std::size_t kMost = 255;
  constexpr int kMostParts = 4;
  if (name.size() > kMost) return false;
  for (int part = 0; part < kMostParts; ++part) {
    const std::size_t slash = name.find('/');
    if (!is_part(name.substr(0, slash))) return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
  return false;
}

std::optional<DType> dtype_of(std::string_view name) {
  for (const DType type : {DType::kF32, DType::kF64, DType::kBf16, DType::kF16, DType::kI32}) {
    if (name == name_of(type)) return type;
  }
  return std::nullopt;
}

std::string new_uuid() {
  std::array<unsigned char, 16> random{};
  if (::getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    throw EnvironmentError("the system provides no random numbers");
  }
  random[6] = static_cast<unsigned char>((random[6] & 0x0fu) | 0x40u);
  random[8] = static_cast<unsigned char>((random[8] & 0x3fu) | 0x80u);
  std::string text;
  for (std::size_t i = 0; i < random.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += "0123456789abcdef"[random[i] >> 4];
    text += "0123456789abcdef"[random[i] & 15u];
  }
  return text;
}

bool is_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !is_hex(text[i])) return false;
  }
  return true;
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

}  // namespace trireme::checkpoint
