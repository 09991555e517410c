#include "trainer/loop/run_log.h"

#include <string_view>

namespace trireme {

RunLog::RunLog(bool leads, const Console::Options& console) {
  if (leads) console_.emplace(console);
}

void RunLog::open(const std::filesystem::path& folder, const LedgerBegin& begin, bool tensorboard) {
  if (!console_) return;
  events_.emplace(folder / "events.jsonl");
  LedgerBegin marked = begin;
  if (events_->sync()) marked.events = events_->mark();
  ledger_.emplace(folder / "ledger.jsonl",
                  marked);  // records why before the metrics are cut
  metrics_.emplace(folder / "metrics.jsonl", begin.after);
  if (tensorboard) tensorboard_.emplace(folder / "tensorboard", begin.after);
}

void RunLog::banner(const std::string& title, const std::vector<Console::Row>& rows) {
  if (console_) console_->banner(title, rows);
}

void RunLog::note(const std::string& text) {
  if (console_) console_->note(text);
}

void RunLog::event(const char* name, std::int64_t step, const EventsLog::Details& details) {
  if (!events_) return;
  events_->record(name, step, details);
  // The ledger of the steps refers to it.
  if (name == std::string_view("start") || name == std::string_view("resume")) events_->sync();
}

void RunLog::warn(std::int64_t step, const std::string& text) {
  note("warning: " + text);
  event("warning", step, {{"text", text}});
}

void RunLog::step(const LedgerStep& taken, const StepMetrics& metrics) {
  if (ledger_) ledger_->append(taken);
  if (metrics_) metrics_->append(metrics);
  if (tensorboard_) tensorboard_->step(metrics);
  if (console_) console_->step(metrics);
}

void RunLog::validation(const StepMetrics& metrics, std::int64_t tokens, double seconds) {
  if (console_) console_->validation(metrics, seconds);
  EventsLog::Details details{
      {"loss", *metrics.validation_loss}, {"tokens", tokens}, {"seconds", seconds}};
  if (metrics.validation_bits_per_byte) {
    details["bits_per_byte"] = *metrics.validation_bits_per_byte;
  }
  for (const MeasuredSet& set : metrics.validation_sets) {
    EventsLog::Details one{{"name", set.name}, {"loss", set.loss}, {"tokens", set.tokens}};
    if (set.bits_per_byte) one["bits_per_byte"] = *set.bits_per_byte;
    details["sets"].push_back(std::move(one));
  }
  event("validation", metrics.step, details);
}

void RunLog::sync() {
  if (ledger_) ledger_->sync();
  if (metrics_) metrics_->sync();
  if (events_) events_->sync();
}

}  // namespace trireme
