#include "parallel/expert/token_all_to_all.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "model/device/copy.h"
#include "parallel/expert/expert_rounds.h"

namespace trireme {
namespace {

std::vector<std::int64_t> times(const std::vector<std::int64_t>& rows, std::int64_t width) {
  std::vector<std::int64_t> elements;
  for (const std::int64_t count : rows) elements.push_back(count * width);
  return elements;
}

}  // namespace

TokenAllToAll::TokenAllToAll(Communicator& ranks, const Stream& stream, const Options& options,
                             Arena& workspace)
    : ranks_(ranks),
      options_(options),
      counts_(stream, workspace.take({ranks.size(), options.experts}, DType::kF32)),
      // One more than groups for each of at most as many rounds as ranks; the last may have none.
      starts_(stream, workspace.take({options.experts + ranks.size() + 1}, DType::kI32)) {
  require(options.buffer_factor >= 1, "a buffer for ", options.buffer_factor,
          " times a rank's equal share of rows");
}

std::int64_t TokenAllToAll::capacity(std::int64_t pairs) const {
  return ExpertBuffer{ranks_.size(), options_.experts, options_.top_k, pairs / options_.top_k,
                      options_.buffer_factor}
      .capacity();
}

// For planning: loads are even.
std::vector<ExpertRound> TokenAllToAll::even_rounds(std::int64_t pairs) const {
  ExpertRound round{.ranks = ranks_.size(), .rows = pairs};
  for (std::int64_t r = 0, from = 0; r < ranks_.size(); ++r) {
    const std::int64_t count = pairs / ranks_.size() + (r < pairs % ranks_.size() ? 1 : 0);
    round.sent.push_back(count);
    round.sent_from.push_back(from);
    from += count;
  }
  round.received = round.sent;
  return {round};
}

void TokenAllToAll::plan(ExecContext& ctx, std::vector<ExpertRound>& rounds, Tensor counts,
                         const ops::ExpertRows& rows) {
  const std::int64_t pairs = rows.pairs.count();
  const Tensor starts = ctx.saved.take(starts_.tensor().shape, DType::kI32);
  ranks_.all_gather(ctx.stream, counts_.tensor(), counts);
  std::int64_t at = 0;
  if (ctx.stream.executes()) {
    counts_.download(ctx.stream);
    ctx.stream.synchronize();
    const Tensor& host = counts_.host();
    const std::span choices(host.as<float>(), static_cast<std::size_t>(host.count()));
    const ExpertCounts all{choices, ranks_.size(), options_.experts};
    std::vector<std::int32_t> ends;
    rounds = expert_rounds(all, ranks_.rank(), capacity(pairs), ends);
    std::memcpy(starts_.host().data, ends.data(), ends.size() * sizeof(std::int32_t));
    starts_.upload(ctx.stream);
    copy_bytes(ctx.stream, starts.data, starts_.tensor().data, starts.bytes());
  } else {
    rounds = even_rounds(pairs);
  }
  for (ExpertRound& round : rounds) {
    const std::int64_t count = round.ranks * options_.experts / ranks_.size() + 1;
    // Products need at least one group; that of a round without rows is empty.
    round.starts = starts.slice(at, std::max<std::int64_t>(count, 2));
    at += count;
  }
  most_rounds_ = std::max(most_rounds_, std::ssize(rounds));
}

void TokenAllToAll::dispatch(Stream& stream, Tensor received, Tensor rows,
                             const ExpertRound& round) {
  if (round.sent.empty()) return;
  const std::int64_t width = rows.width();
  const auto incoming = times(round.received, width), outgoing = times(round.sent, width),
             from = times(round.sent_from, width);
  ranks_.all_to_all(stream, {received, incoming}, {rows, outgoing, from});
}

void TokenAllToAll::send_back(Stream& stream, Tensor rows, Tensor results,
                              const ExpertRound& round) {
  if (round.sent.empty()) return;
  const std::int64_t width = rows.width();
  const auto outgoing = times(round.received, width), incoming = times(round.sent, width),
             to = times(round.sent_from, width);
  ranks_.all_to_all(stream, {rows, incoming, to}, {results, outgoing});
}

std::int64_t TokenAllToAll::take_most_rounds() {
  return std::exchange(most_rounds_, 1);
}

}  // namespace trireme
