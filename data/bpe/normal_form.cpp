#include "data/bpe/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>

#include "model/base/error.h"

namespace trireme::data {
namespace {

struct LaterRange {
  utf8proc_int32_t first, last;
};
// Characters since Unicode 10 that utf8proc reorders or composes. Sorted.
constexpr auto kLater = std::to_array<LaterRange>(
    {{0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},
     {0xC3C, 0xC3C},     {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},
     {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},   {0xA82C, 0xA82C},   {0x10D24, 0x10D27},
     {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50}, {0x10F82, 0x10F85},
     {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
     {0x11930, 0x11930}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0},
     {0x11A34, 0x11A34}, {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42},
     {0x11D44, 0x11D45}, {0x11D97, 0x11D97}, {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1},
     {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
     {0x1E4EC, 0x1E4EF}});

bool is_later(utf8proc_int32_t c) {
  const auto* const found =
      std::lower_bound(kLater.begin(), kLater.end(), c,
                       [](const LaterRange& range, auto at) { return range.last < at; });
  return found != kLater.end() && c >= found->first;
}

void append_nfc(std::string_view text, std::string& to) {
  struct Free {
    void operator()(utf8proc_uint8_t* memory) const { std::free(memory); }
  };
  utf8proc_uint8_t* made = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &made, options);
  const std::unique_ptr<utf8proc_uint8_t, Free> owner(made);
  require(size >= 0, "utf8proc: ", utf8proc_errmsg(size));
  to.append(reinterpret_cast<const char*>(made), static_cast<std::size_t>(size));
}

}  // namespace

bool is_surely_nfc(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
}

std::string to_nfc(std::string_view text) {
  std::string made;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t c = 0;
    const utf8proc_ssize_t size =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                         static_cast<utf8proc_ssize_t>(text.size() - at), &c);
    require(size > 0, "to_nfc: no UTF-8 at byte ", at);
    const std::size_t after = at + static_cast<std::size_t>(size);
    if (is_later(c)) {
      append_nfc(text.substr(begin, at - begin), made);
      made += text.substr(at, after - at);
      begin = after;
    }
    at = after;
  }
  append_nfc(text.substr(begin), made);
  return made;
}

}  // namespace trireme::data
