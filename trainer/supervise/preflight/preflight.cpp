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

// What is wrong on a rank must not keep the others waiting: it travels as text.
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

// Ranks with the same words share a fault.
void add(std::vector<Fault>& faults, int rank, const std::string& why) {
  for (Fault& fault : faults) {
    if (fault.why == why) return fault.ranks.push_back(rank);
  }
  faults.push_back({{rank}, why});
}

Row judged(const Check& check, const std::vector<std::string>& texts) {
  Row row{.name = check.name, .judgement = {}, .by_rank = {}};
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const Figures found = Figures::parse(texts[rank]);
    if (found.contains("failure")) {
      add(row.judgement.faults, static_cast<int>(rank), found["failure"]);
    }
    row.by_rank.push_back(found.value("figures", Figures::object()));
  }
  if (row.judgement.faults.empty()) row.judgement = check.judge(row.by_rank);
  return row;
}

Figures figures_of(const Row& row) {
  Figures faults = Figures::array();
  for (const Fault& fault : row.judgement.faults) {
    faults.push_back({{"ranks", fault.ranks}, {"why", fault.why}});
  }
  return {{"name", row.name},
          {"passed", row.judgement.faults.empty()},
          {"text", row.judgement.text},
          {"faults", faults}};
}

}  // namespace

Preflight::Preflight(const checkpoint::Team& team, std::vector<std::string> hosts, Tell tell)
    : team_(team), hosts_(std::move(hosts)), tell_(std::move(tell)) {}

void Preflight::make(const Check& check) {
  const std::vector<std::string> texts = team_.together([&] { return measured(check); });
  if (!team_.leads()) return;
  rows_.push_back(judged(check, texts));
  if (!tell_) return;
  const Judgement& judgement = rows_.back().judgement;
  const auto line = [&](const char* mark, const std::string& text) {
    tell_(fmt::format("{:<5} {:<15} {}", mark, check.name, text));
  };
  if (judgement.faults.empty()) line("ok", judgement.text);
  for (const Fault& fault : judgement.faults) {
    line("FAIL", fmt::format("{}: {}", named(fault.ranks), fault.why));
  }
}

void Preflight::require_passed() const {
  const std::string why = team_.led([&] { return blame(); });
  if (!why.empty()) throw on_all_ranks(EnvironmentError(say("preflight: ", why)));
}

bool Preflight::passed() const {
  return std::all_of(rows_.begin(), rows_.end(),
                     [](const Row& row) { return row.judgement.faults.empty(); });
}

Figures Preflight::summary() const {
  Figures checks = Figures::array();
  for (const Row& row : rows_) checks.push_back(figures_of(row));
  return {{"passed", passed()}, {"ranks", team_.size()}, {"checks", checks}};
}

Figures Preflight::report() const {
  Figures all = summary();
  all["hosts"] = hosts_;
  for (std::size_t i = 0; i < rows_.size(); ++i) all["checks"][i]["by_rank"] = rows_[i].by_rank;
  return all;
}

std::string Preflight::blame() const {
  std::string text;
  for (const Row& row : rows_) {
    for (const Fault& fault : row.judgement.faults) {
      if (!text.empty()) text += "; ";
      text += fmt::format("{}: {}: {}", row.name, named(fault.ranks), fault.why);
    }
  }
  return text;
}

// "rank 3 (node041)", "ranks 3, 4 (node041), 9 (node042)"
std::string Preflight::named(const std::vector<int>& ranks) const {
  std::string text = ranks.size() == 1 ? "rank" : "ranks";
  const std::size_t told = std::min(ranks.size(), kMostNamed);
  for (std::size_t i = 0; i < told; ++i) {
    const std::string& host = hosts_[static_cast<std::size_t>(ranks[i])];
    const bool next_is_there =
        i + 1 < told && hosts_[static_cast<std::size_t>(ranks[i + 1])] == host;
    text += fmt::format("{} {}", i == 0 ? "" : ",", ranks[i]);
    if (!next_is_there) text += fmt::format(" ({})", host);
  }
  if (told < ranks.size()) text += fmt::format(" and {} more", ranks.size() - told);
  return text;
}

}  // namespace trireme::preflight
