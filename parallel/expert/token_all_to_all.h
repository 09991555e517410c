#pragma once
#include <cstdint>
#include <vector>

#include "model/layers/token_exchange.h"
#include "model/tensor/host_mirror.h"
#include "parallel/comm/communicator.h"

namespace trireme {

// Expert parallelism by all-to-all. The host learns the sizes of a micro-batch's blocks before it
// sends them, for which it waits for the router.
class TokenAllToAll final : public TokenExchange {
 public:
  struct Options {
    std::int64_t experts = 1;
    std::int64_t top_k = 1;
    // Rows that a rank takes at once, as a multiple of its equal share.
    double buffer_factor = 1;
  };
  // Takes permanent memory in `workspace`. The ranks, which send nothing else by all_to_all, and
  // the stream outlive this.
  TokenAllToAll(Communicator& ranks, const Stream& stream, const Options& options,
                Arena& workspace);

  Slice slice() const override { return {ranks_.rank(), ranks_.size()}; }
  std::int64_t capacity(std::int64_t pairs) const override;
  void plan(ExecContext& ctx, std::vector<ExpertRound>& rounds, Tensor counts,
            const ops::ExpertRows& rows) override;
  void dispatch(Stream& stream, Tensor received, Tensor rows, const ExpertRound& round) override;
  void send_back(Stream& stream, Tensor rows, Tensor results, const ExpertRound& round) override;

  // Most rounds of a micro-batch and layer since the last call of this.
  std::int64_t take_most_rounds();

 private:
  std::vector<ExpertRound> even_rounds(std::int64_t pairs) const;

  Communicator& ranks_;
  Options options_;
  HostMirror counts_;  // [ranks, experts] F32
  HostMirror starts_;  // of all rounds
  std::int64_t most_rounds_ = 1;
};

}  // namespace trireme
