#include "trainer/supervise/preflight/preflight.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "model/base/error.h"

namespace trireme::preflight {
namespace {

constexpr std::size_t kMostNamed = 8;

std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string dump(const Figures& figures) {
  return figures.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// A rank's error is sent as text, so that the other ranks do not wait for it.
std::string measured(const Check& check) {
  try {
    return dump({{"figures", check.measure()}});
  } catch (const PeerError&) {
    throw;
  } catch (const Error& error) {
    return dump({{"failure", on_one_line(error.what())}});
  } catch (const std::filesystem::filesystem_error& error) {
    return dump({{"failure", on_one_line(error.what())}});
  }
}

// Merges ranks with the same reason into one fault.
void add(std::vector<Fault>& faults, int rank, const std::string& why) {
  for (Fault& fault : faults) {
    if (fault.why == why) return fault.ranks.push_back(rank);
  }
  faults.push_back({{rank}, why});
}

CheckResult judged(const Check& check, const std::vector<std::string>& texts) {
  CheckResult row{.name = check.name, .judgment = {}, .by_rank = {}};
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const Figures found = Figures::parse(texts[rank]);
    if (found.contains("failure")) {
      add(row.judgment.faults, static_cast<int>(rank), found["failure"]);
    }
    row.by_rank.push_back(found.value("figures", Figures::object()));
  }
  if (row.judgment.faults.empty()) row.judgment = check.judge(row.by_rank);
  return row;
}

Figures figures_of(const CheckResult& row) {
  Figures faults = Figures::array();
  for (const Fault& fault : row.judgment.faults) {
    faults.push_back({{"ranks", fault.ranks}, {"why", fault.why}});
  }
  return {{"name", row.name},
          {"passed", row.judgment.faults.empty()},
          {"text", row.judgment.text},
          {"faults", faults}};
}

}  // namespace

Preflight::Preflight(const Team& team, std::vector<std::string> hosts, PrintLine print)
    : team_(team), hosts_(std::move(hosts)), print_(std::move(print)) {}

void Preflight::make(const Check& check) {
  const std::vector<std::string> texts = team_.together([&] { return measured(check); });
  if (!team_.leads()) return;
  results_.push_back(judged(check, texts));
  if (!print_) return;
  const Judgment& judgment = results_.back().judgment;
  const auto line = [&](const char* mark, const std::string& text) {
    print_(fmt::format("{:<5} {:<15} {}", mark, check.name, text));
  };
  if (judgment.faults.empty()) line("ok", judgment.text);
  for (const Fault& fault : judgment.faults) {
    line("FAIL", fmt::format("{}: {}", named(fault.ranks), fault.why));
  }
}

void Preflight::require_passed() const {
  const std::string why = team_.led([&] { return blame(); });
  if (!why.empty()) throw on_all_ranks(EnvironmentError(say("preflight: ", why)));
}

bool Preflight::passed() const {
  return std::all_of(results_.begin(), results_.end(),
                     [](const CheckResult& row) { return row.judgment.faults.empty(); });
}

Figures Preflight::summary() const {
  Figures checks = Figures::array();
  for (const CheckResult& row : results_) checks.push_back(figures_of(row));
  return {{"passed", passed()}, {"ranks", team_.size()}, {"checks", checks}};
}

Figures Preflight::report() const {
  Figures all = summary();
  all["hosts"] = hosts_;
  for (std::size_t i = 0; i < results_.size(); ++i)
    all["checks"][i]["by_rank"] = results_[i].by_rank;
  return all;
}

std::string Preflight::blame() const {
  std::string text;
  for (const CheckResult& row : results_) {
    for (const Fault& fault : row.judgment.faults) {
      if (!text.empty()) text += "; ";
      text += fmt::format("{}: {}: {}", row.name, named(fault.ranks), fault.why);
    }
  }
  return text;
}

// "rank 3 (node041)", "ranks 3, 4 (node041), 9 (node042)"
std::string Preflight::named(const std::vector<int>& ranks) const {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  const std::size_t shown = std::min(ranks.size(), kMostNamed);
  for (std::size_t i = 0; i < shown; ++i) {
    const std::string& host = hosts_[ranks[i]];
    const bool next_is_there = i + 1 < shown && hosts_[ranks[i + 1]] == host;
    text += fmt::format("{} {}", i == 0 ? "" : ",", ranks[i]);
    if (!next_is_there) text += fmt::format(" ({})", host);
  }
  if (shown < ranks.size()) text += fmt::format(" and {} more", ranks.size() - shown);
  return text;
}

}  // namespace trireme::preflight
