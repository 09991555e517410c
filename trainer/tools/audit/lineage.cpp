#include "trainer/tools/audit/lineage.h"

#include <xxhash.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "model/base/error.h"
#include "model/base/json.h"
#include "trainer/config/batch_size.h"
#include "trainer/config/reader.h"
#include "trainer/config/sequence_length.h"
#include "trainer/engine/computation.h"
#include "trainer/tools/audit/windows.h"

namespace trireme {
namespace {

constexpr const char* kRampup = "training.rampup_batch_size";

std::uint64_t mixed(std::uint64_t a, std::uint64_t b, std::uint64_t c = 0) {
  const std::array<std::uint64_t, 3> all{a, b, c};
  return XXH3_64bits(all.data(), sizeof(all));
}

std::uint64_t hash_of(const std::string& text) {
  return XXH3_64bits(text.data(), text.size());
}

std::optional<std::int64_t> number_in(const Computation& computation, const char* key) {
  const auto found = computation.find(key);
  std::int64_t number = 0;
  if (found == computation.end()) return std::nullopt;
  const std::string& text = found->second;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

// The batch sizes; nullopt if unknown.
std::optional<TrainingConfig> batches_in(const Computation& computation) {
  const auto batch = number_in(computation, "training.global_batch_size");
  if (!batch) return std::nullopt;
  TrainingConfig training;
  training.global_batch_size = *batch;
  const auto found = computation.find(kRampup);
  if (found == computation.end()) return training;
  // The pairs have the syntax of JSON.
  const auto ramp = valid_json<std::vector<std::array<std::int64_t, 2>>>(found->second);
  if (!ramp) return std::nullopt;
  for (const auto& [sequences, steps] : *ramp) {
    training.rampup_batch_size.push_back({sequences, steps});
  }
  return training;
}

// Tokens of a sequence that starts a step of these batch sizes; nullopt if unknown.
std::optional<std::int64_t> seq_len_in(const Computation& computation,
                                       const TrainingConfig& training, std::uint64_t sample) {
  const auto length = number_in(computation, "training.seq_len");
  const auto found = computation.find("data.stages");
  if (!length || found == computation.end()) return length;
  RunConfig config;
  config.training = training;
  config.training.seq_len = *length;
  auto stages = parse_stages(found->second);
  if (!stages) return std::nullopt;
  config.data.stages = std::move(*stages);
  return length_of(sequence_lengths(config), sample).seq_len;
}

// Error-feedback residuals of gradient compression are not part of checkpoints.
bool forgets_residuals(const Computation& computation) {
  const auto found = computation.find("parallelism.gradient_compression");
  if (found == computation.end()) return false;
  return found->second != "\"none\"" && found->second != "\"float16\"" &&
         found->second != "\"bfloat16\"";
}

class Follower {
 public:
  Follower(const Records& records, Findings& findings)
      : findings_(findings), reasons_(records.left_out) {}

  void add(std::int64_t number, const LedgerBegin& begin);
  void add(std::int64_t number, const LedgerStep& step);
  Lineage lineage;

 private:
  void find(std::int64_t number, std::int64_t step, std::string text) {
    findings_.push_back({kLedgerFile, number, step, std::move(text)});
  }
  std::uint64_t new_state() { return mixed(++states_, 0x5eed); }
  std::uint64_t class_of(const Computation& computation);
  std::int64_t top() const { return lineage.steps.empty() ? 0 : lineage.steps.back().step->step; }
  // True if the step is the next one.
  bool is_in_order(std::int64_t number, const LedgerStep& step);
  void check_shape(std::int64_t number, const LedgerStep& step);
  void check_samples(std::int64_t number, const LedgerStep& step);
  // Returns the state after the step.
  std::uint64_t check_bits(std::int64_t number, const LedgerStep& step);

  Findings& findings_;
  ExclusionReasons reasons_;
  const LedgerBegin* begin_ = nullptr;
  std::int64_t incarnation_ = 0;
  std::int64_t last_ = 0;    // last step of this incarnation, or the step it resumed from
  bool has_steps_ = false;   // of this incarnation
  std::uint64_t state_ = 0;  // before the next step
  std::uint64_t class_ = 0;  // class of this incarnation's computation
  std::uint64_t states_ = 0;
  std::vector<const Computation*> classes_;  // one per class of bit-identical computations
  struct Seen {
    const LedgerStep* step;
    std::int64_t number;
  };
  std::unordered_map<std::int64_t, Seen> undone_;       // by step
  std::unordered_map<std::uint64_t, Seen> by_samples_;  // by key_of_samples
  std::unordered_map<std::uint64_t, Seen> by_origin_;   // by state before, samples and computation
  std::unordered_map<std::uint64_t, std::string> weights_;  // by state
};

std::uint64_t Follower::class_of(const Computation& computation) {
  const auto found = std::find_if(classes_.begin(), classes_.end(), [&](const auto* other) {
    return change_of(*other, computation).same_bits;
  });
  if (found != classes_.end()) return static_cast<std::uint64_t>(found - classes_.begin());
  classes_.push_back(&computation);
  return classes_.size() - 1;
}

void Follower::add(std::int64_t number, const LedgerBegin& begin) {
  const bool same = begin.why == "rollback";
  if (!same && begin.why != "start" && begin.why != "resume") {
    find(number, 0, say("unknown reason \"", begin.why, "\" of an incarnation"));
  }
  if (same ? begin.incarnation != incarnation_ : begin.incarnation <= incarnation_) {
    find(number, 0, say("incarnation ", begin.incarnation, " follows incarnation ", incarnation_));
  }
  if (begin.why == "start" && begin.after != 0) {
    find(number, 0, say("a start must begin at step 0, not after step ", begin.after));
  }
  incarnation_ = begin.incarnation;
  begin_ = &begin;
  has_steps_ = false;
  last_ = begin.after;
  class_ = class_of(begin.computation);
  reasons_.add(begin.skip);
  while (top() > begin.after) {
    const TakenStep& undone = lineage.steps.back();
    undone_[undone.step->step] = {undone.step, undone.number};
    lineage.steps.pop_back();
  }
  if (top() < begin.after) {
    find(number, 0,
         say("incarnation ", begin.incarnation, " resumes from step ", begin.after,
             ", but the ledger has no steps after step ", top()));
    state_ = new_state();
  } else if (begin.after == 0) {
    state_ = hash_of(begin.weights);
  } else {
    state_ = lineage.steps.back().state;
  }
  const auto [known, is_new] = weights_.try_emplace(state_, begin.weights);
  if (!is_new && known->second != begin.weights) {
    find(number, 0,
         say("it resumes from step ", begin.after, " with weights ", begin.weights,
             ", but an earlier incarnation had ", known->second, " in that state"));
  }
  if (begin.after > 0 && forgets_residuals(begin.computation)) state_ = new_state();
}

void Follower::add(std::int64_t number, const LedgerStep& step) {
  if (begin_ == nullptr) {
    find(number, step.step, "it precedes the first start");
    return;
  }
  if (step.incarnation != incarnation_) {
    find(number, step.step,
         say("it has incarnation ", step.incarnation, ", but is among the steps of incarnation ",
             incarnation_));
  }
  if (!is_in_order(number, step)) return;
  if (!has_steps_) ++(begin_->why == "rollback" ? lineage.rollbacks : lineage.incarnations);
  has_steps_ = true;
  check_shape(number, step);
  check_samples(number, step);
  const std::uint64_t state = check_bits(number, step);
  lineage.steps.push_back({&step, number, begin_, state});
  last_ = step.step;
  state_ = state;
}

bool Follower::is_in_order(std::int64_t number, const LedgerStep& step) {
  if (step.step == last_ + 1) return true;
  if (step.step > last_) {
    find(number, step.step, say("it follows step ", last_, "; the steps between are missing"));
    state_ = new_state();
    return true;
  }
  const TakenStep* there = lineage.find(step.step);
  find(number, step.step,
       there == nullptr
           ? say("it follows step ", last_)
           : say("it repeats line ", there->number, " without a resume or rollback in between"));
  return false;
}

void Follower::check_shape(std::int64_t number, const LedgerStep& step) {
  const std::optional<TrainingConfig> batches = batches_in(begin_->computation);
  if (!batches) return;
  const std::int64_t batch = sequences_of_step(*batches, step.step);
  const auto length = seq_len_in(begin_->computation, *batches, step.samples.first);
  if (batch != step.sequences) {
    const auto ramp = begin_->computation.find(kRampup);
    const bool has_ramp = ramp != begin_->computation.end() && ramp->second != "[]";
    find(number, step.step,
         say("it has ", step.sequences, " sequences, but its incarnation's ",
             has_ramp ? say(kRampup, " = ", ramp->second, " requires ")
                      : std::string("training.global_batch_size is "),
             batch));
  } else if (length && batch * *length != step.tokens) {
    find(number, step.step, say("it has ", step.tokens, " tokens, not ", batch, " x ", *length));
  }
}

void Follower::check_samples(std::int64_t number, const LedgerStep& step) {
  if (top() == step.step - 1) {  // otherwise reported already
    const std::uint64_t end = lineage.steps.empty() ? 0 : lineage.steps.back().step->samples.end;
    const std::string wrong = complaint_of_window(step, end);
    if (!wrong.empty()) find(number, step.step, wrong);
  }
  const std::string unexplained = reasons_.complaint(step);
  if (!unexplained.empty()) find(number, step.step, unexplained);
  // Sample numbers are comparable only within one data.stages.
  const std::uint64_t key = mixed(key_of_samples(step), hash_of(stages_of(*begin_)));
  const auto [before, is_new] = by_samples_.try_emplace(key, Seen{&step, number});
  if (!is_new && before->second.step->hash != step.hash) {
    find(number, step.step,
         say("its tokens differ from those of line ", before->second.number, " (incarnation ",
             before->second.step->incarnation, ") for the same ", samples_text(step.samples)));
  }
}

std::uint64_t Follower::check_bits(std::int64_t number, const LedgerStep& step) {
  const std::uint64_t samples = key_of_samples(step);
  const auto same_bits = [&](const LedgerStep& other) {
    return std::bit_cast<std::uint64_t>(other.loss) == std::bit_cast<std::uint64_t>(step.loss) &&
           std::bit_cast<std::uint64_t>(other.grad_norm) ==
               std::bit_cast<std::uint64_t>(step.grad_norm);
  };
  std::uint64_t origin = mixed(state_, samples, class_);
  const auto [promise, is_new] = by_origin_.try_emplace(origin, Seen{&step, number});
  const bool holds = is_new || same_bits(*promise->second.step);
  if (!holds && step.products_chosen) {
    origin = new_state();  // newly selected GEMM libraries may change the bits
  } else if (!holds) {
    const LedgerStep& other = *promise->second.step;
    const bool loss = other.loss != step.loss;
    find(number, step.step,
         say("its ", loss ? "loss" : "gradient norm", " is not bit-identical to line ",
             promise->second.number, " (incarnation ", other.incarnation,
             "), although state and samples are equal and the config guarantees equal bits"));
  }
  if (const auto undone = undone_.find(step.step); undone != undone_.end()) {
    const bool promised = !is_new;
    const LedgerStep& other = promised ? *promise->second.step : *undone->second.step;
    ++lineage.repeated.steps;
    lineage.repeated.samples += key_of_samples(other) == samples ? 1 : 0;
    lineage.repeated.promised += promised ? 1 : 0;
    lineage.repeated.bits += same_bits(other) ? 1 : 0;
    undone_.erase(undone);
  }
  return mixed(origin, std::bit_cast<std::uint64_t>(step.lr));
}

}  // namespace

const TakenStep* Lineage::find(std::int64_t step) const {
  const auto found =
      std::lower_bound(steps.begin(), steps.end(), step,
                       [](const TakenStep& some, std::int64_t at) { return some.step->step < at; });
  return found == steps.end() || found->step->step != step ? nullptr : &*found;
}

Lineage follow(const Records& records, Findings& findings) {
  Follower follower(records, findings);
  for (const LedgerRecord& record : records.ledger) {
    std::visit([&](const auto& line) { follower.add(record.number, line); }, record.line);
  }
  return std::move(follower.lineage);
}

}  // namespace trireme
