#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "checkpoint/format/manifest.h"
#include "model/base/file.h"
#include "tests/trainer/telemetry/scratch_folder.h"
#include "tests/trainer/tools/audit/made_up_run.h"

namespace trireme {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Lines = std::vector<LedgerLine>;
using Texts = std::vector<std::string>;

Texts texts_in(const std::filesystem::path& path) {
  Texts texts;
  std::istringstream all(read_text(path));
  for (std::string line; std::getline(all, line);) texts.push_back(line);
  return texts;
}

void write(const std::filesystem::path& path, const Texts& texts) {
  std::ofstream out(path, std::ios::binary);
  for (const std::string& text : texts) out << text << "\n";
}

// A run with a kill, a skip and a rollback in it, whose records are then damaged.
class Tampering : public testing::Test {
 protected:
  Tampering() : source_(MadeUpRun::source(scratch_.path())), run_(scratch_ / "run") {
    MadeUpRun(run_, source_, 6).run(30, {.kill = 0.08, .skip = 0.05, .rollback = 0.05});
    texts_ = texts_in(run_ / "ledger.jsonl");
    for (const std::string& text : texts_) lines_.push_back(parse_ledger_line(text));
    Audit audit = audit_run(run_, /*data=*/false);
    EXPECT_EQ(audit.findings.size(), 0u);
    EXPECT_GE(audit.lineage.rollbacks, 1);
    EXPECT_GE(audit.lineage.incarnations, 2);
    EXPECT_GE(audit.lineage.repeated.promised, 2);
    for (const TakenStep& taken : audit.lineage.steps) counts_.insert(taken.number - 1);
  }

  // As a forger would who knows how lines are chained.
  Findings of(const Lines& lines) {
    Texts texts;
    std::uint64_t chain = 0;
    for (const LedgerLine& line : lines) {
      ChainedText chained = ledger_text(line, chain);
      texts.push_back(chained.text);
      chain = chained.chain;
    }
    return of_texts(texts);
  }
  Findings of_texts(const Texts& texts) {
    write(run_ / "ledger.jsonl", texts);
    return audit_with_data(run_, source_);
  }

  // Changes each step that counts, one at a time; each time the line itself must be found, with
  // `words`.
  void expect_each(const std::function<void(LedgerStep&)>& change, const char* words) {
    for (const std::size_t i : counts_) {
      Lines lines = lines_;
      auto& step = std::get<LedgerStep>(lines[i]);
      change(step);
      EXPECT_TRUE(names(of(lines), i + 1, step.step, words)) << "line " << i + 1;
    }
  }
  static bool names(const Findings& findings, std::size_t line, std::int64_t step,
                    const char* words) {
    for (const Finding& found : findings) {
      if (found.line == static_cast<std::int64_t>(line) && (step == 0 || found.step == step) &&
          found.text.find(words) != std::string::npos) {
        return true;
      }
    }
    for (const Finding& found : findings) ADD_FAILURE() << text_of(found);
    return false;
  }

  ScratchFolder scratch_;
  data::SampleSource source_;
  std::filesystem::path run_;
  Texts texts_;
  Lines lines_;
  std::set<std::size_t> counts_;  // the lines, from 0, of the steps that count
};

TEST_F(Tampering, a_line_that_is_doubled) {
  for (const std::size_t i : counts_) {
    Lines lines = lines_;
    lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(i), lines[i]);
    const auto step = std::get<LedgerStep>(lines[i]).step;
    EXPECT_TRUE(names(of(lines), i + 2, step, "it repeats line"));
  }
}

TEST_F(Tampering, a_line_that_is_lost) {
  for (const std::size_t i : counts_) {
    Lines lines = lines_;
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(i));
    const Findings findings = of(lines);
    const auto step = std::get<LedgerStep>(lines_[i]).step;
    bool in_metrics = false;
    for (const Finding& found : findings) {
      in_metrics |= found.file == "metrics.jsonl" && found.step == step;
    }
    EXPECT_TRUE(in_metrics) << "line " << i + 1;
    const bool last = i + 1 == lines_.size();
    if (!last && std::holds_alternative<LedgerStep>(lines_[i + 1])) {
      EXPECT_TRUE(names(findings, i + 1, step + 1, "missing"));
    }
  }
}

TEST_F(Tampering, lines_that_are_swapped) {
  for (const std::size_t i : counts_) {
    if (counts_.count(i + 1) == 0) continue;
    Lines lines = lines_;
    std::swap(lines[i], lines[i + 1]);
    const auto step = std::get<LedgerStep>(lines_[i]).step;
    EXPECT_TRUE(names(of(lines), i + 1, step + 1, "missing"));
  }
}

TEST_F(Tampering, a_window_that_is_shifted) {
  const auto shift = [](LedgerStep& step) {
    ++step.samples.first;
    ++step.samples.end;
  };
  expect_each(shift, "");
  expect_each([](LedgerStep& step) { ++step.samples.end; }, "sequences");
  expect_each(
      [](LedgerStep& step) {
        step.left_out.clear(), step.samples.first += 4, step.samples.end += 4;
      },
      "neither trained on nor excluded");
}

TEST_F(Tampering, one_bit_of_a_hash) {
  expect_each([](LedgerStep& step) { step.hash ^= std::uint64_t{1} << step.step; },
              "the token files have changed");
}

TEST_F(Tampering, one_bit_of_what_came_of_a_step) {
  const auto flip = [](double& value) {
    value = std::bit_cast<double>(std::bit_cast<std::uint64_t>(value) ^ 1);
  };
  const auto in_metrics = [&](const std::function<double&(LedgerStep&)>& of_step,
                              const char* name) {
    for (const std::size_t i : counts_) {
      Lines lines = lines_;
      auto& step = std::get<LedgerStep>(lines[i]);
      flip(of_step(step));
      EXPECT_TRUE(names(of(lines), static_cast<std::size_t>(step.step), step.step, name));
    }
  };
  in_metrics([](LedgerStep& step) -> double& { return step.loss; }, "its loss");
  in_metrics([](LedgerStep& step) -> double& { return step.grad_norm; }, "its grad_norm");
  in_metrics([](LedgerStep& step) -> double& { return step.lr; }, "its lr");
}

TEST_F(Tampering, the_loss_of_a_step_that_was_taken_again_with_other_bits) {
  int found = 0;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    const auto* step = std::get_if<LedgerStep>(&lines_[i]);
    if (step == nullptr || counts_.count(i) > 0) continue;
    Lines lines = lines_;
    auto& changed = std::get<LedgerStep>(lines[i]);
    changed.loss = std::bit_cast<double>(std::bit_cast<std::uint64_t>(changed.loss) ^ 1);
    for (const Finding& finding : of(lines)) {
      found +=
          finding.step == step->step && finding.text.find("not bit-identical") != std::string::npos;
    }
  }
  EXPECT_GE(found, 2);
}

TEST_F(Tampering, counts_that_cannot_be) {
  expect_each([](LedgerStep& step) { ++step.tokens; }, "tokens");
  expect_each([](LedgerStep& step) { ++step.incarnation; }, "incarnation");
  expect_each([](LedgerStep& step) { step.sequences *= 2; }, "sequences");
  const auto endless = [](LedgerStep& step) {
    step.sequences = std::int64_t{1} << 60;
    step.samples.end = step.samples.first + (std::uint64_t{1} << 60);
  };
  expect_each(endless, "cannot be read again");
}

TEST_F(Tampering, a_begin_that_is_lost_or_another_one) {
  int begins = 0;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    if (!std::holds_alternative<LedgerBegin>(lines_[i])) continue;
    ++begins;
    Lines lines = lines_;
    lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_FALSE(of(lines).empty()) << "line " << i + 1;
    lines = lines_;
    ++std::get<LedgerBegin>(lines[i]).after;
    EXPECT_FALSE(of(lines).empty()) << "line " << i + 1;
    lines = lines_;
    std::get<LedgerBegin>(lines[i]).data += "x";
    EXPECT_TRUE(names(of(lines), i + 1, 0, "the token files are now"));
  }
  EXPECT_GE(begins, 3);
}

TEST_F(Tampering, any_bit_of_the_ledger) {
  std::string all;
  for (const std::string& text : texts_) all += text + "\n";
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::string damaged = all;
    damaged[random() % all.size()] ^= static_cast<char>(1 << random() % 8);
    std::ofstream(run_ / "ledger.jsonl", std::ios::binary) << damaged;
    EXPECT_FALSE(audit_run(run_, /*data=*/false).findings.empty()) << "round " << round;
  }
}

TEST_F(Tampering, lines_without_a_forger) {
  for (std::size_t i = 0; i + 1 < texts_.size(); ++i) {
    Texts texts = texts_;
    texts.erase(texts.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_TRUE(names(of_texts(texts), i + 1, 0, "was modified"));
    texts = texts_;
    texts.insert(texts.begin() + static_cast<std::ptrdiff_t>(i), texts[i]);
    EXPECT_TRUE(names(of_texts(texts), i + 2, 0, "was modified"));
  }
}

TEST_F(Tampering, the_reason_for_what_was_left_out) {
  Texts events = texts_in(run_ / "events.jsonl");
  for (std::string& event : events) {  // as earlier versions wrote them
    event = event.substr(0, event.rfind(",\"line\":")) + "}";
  }
  int reasons = 0;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const json event = json::parse(events[i]);
    const bool is_reason = event["event"] == "skip" || event["event"] == "rollback";
    Texts others = events;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    write(run_ / "events.jsonl", others);
    for (const Finding& found : audit_run(run_, /*data=*/false).findings) {
      EXPECT_TRUE(is_reason) << events[i];
      EXPECT_THAT(found.text, HasSubstr("explains it"));
      ++reasons;
    }
  }
  EXPECT_GE(reasons, 2);
  Texts more = events;
  more.push_back(R"({"event":"resume","step":20,"incarnation":77})");
  write(run_ / "events.jsonl", more);
  EXPECT_TRUE(names(audit_run(run_, false).findings, more.size(), 20, "missing in the ledger"));
}

TEST_F(Tampering, the_metrics) {
  const Texts metrics = texts_in(run_ / "metrics.jsonl");
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    Texts others = metrics;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    write(run_ / "metrics.jsonl", others);
    const bool last = i + 1 == metrics.size();  // a kill may have come before it
    EXPECT_EQ(audit_run(run_, false).findings.empty(), last) << "step " << i + 1;
    json line = json::parse(metrics[i]);
    line["loss"] = line["loss"].get<double>() * (1 + 1e-15);
    others = metrics;
    others[i] = line.dump();
    write(run_ / "metrics.jsonl", others);
    EXPECT_TRUE(names(audit_run(run_, false).findings, i + 1, 0, "its loss"));
  }
}

TEST_F(Tampering, a_checkpoint_that_goes_on_elsewhere) {
  const std::filesystem::path path = run_ / "checkpoints/step-00000020/manifest.json";
  const auto good = checkpoint::read_manifest(path.parent_path());
  const auto with = [&](const char* part, const char* key, const json& value, const char* words) {
    checkpoint::Manifest manifest = good;
    (part == std::string("data") ? manifest.data : manifest.digests)[key] = value;
    replace_text(path, checkpoint::to_text(manifest));
    const Findings findings = audit_run(run_, false).findings;
    ASSERT_EQ(findings.size(), 1u) << key;
    EXPECT_EQ(findings[0].file, "checkpoints/step-00000020/manifest.json");
    EXPECT_THAT(findings[0].text, HasSubstr(words));
  };
  const auto position = good.data.at("samples").get<std::uint64_t>();
  with("data", "samples", position + 1, "resumes at sample");
  with("data", "samples", position - 1, "resumes at sample");
  with("data", "tokens", 1, "tokens");
  with("digests", "loss", "0000000000000000", "no such step");
  with("digests", "loss", "nonsense", "cannot be read");
  with("data", "samples", "many", "cannot be read");
  replace_text(path, "{}");
  EXPECT_EQ(audit_run(run_, false).findings.size(), 1u);
}

TEST_F(Tampering, token_files_with_other_tokens) {
  const ScratchFolder other;
  for (const char* name : {"first.bin", "first.idx", "second.bin", "second.idx"}) {
    std::filesystem::copy_file(scratch_ / name, other / name);
  }
  for (const auto& entry : std::filesystem::directory_iterator(scratch_.path())) {
    if (entry.path().extension() != ".json") continue;
    std::filesystem::copy_file(entry.path(), other / entry.path().filename().string());
  }
  std::string tokens = read_text(other / "second.bin");
  for (std::size_t i = 0; i < tokens.size(); i += 32) tokens[i] ^= 1;
  replace_text(other / "second.bin", tokens);
  const data::SampleSource changed(
      {{.prefix = other / "first"}, {.prefix = other / "second", .weight = 0.6}},
      source_.sequence());
  bool hash = false;
  for (const Finding& found : audit_with_data(run_, changed)) {
    hash |= found.text.find("the token files have changed") != std::string::npos;
  }
  EXPECT_TRUE(hash);
}

}  // namespace
}  // namespace trireme
