#include "trainer/loop/weight_drill.h"

#include "model/base/error.h"
#include "model/device/copy.h"
#include "trainer/loop/drill_words.h"

namespace trireme {
namespace {

constexpr int kBits = 32;  // of a float32

}  // namespace

std::optional<WeightDrill> WeightDrill::from(const Variables& variables) {
  const auto text = variables(kVariable);
  if (!text) return std::nullopt;
  const auto target = DrillTarget::parse(kVariable, *text, "bit");
  const auto bit = target ? drill_number<int>(target->own) : std::nullopt;
  if (!bit || *bit < 0 || *bit >= kBits) {
    throw ConfigError(say(kVariable, "=\"", *text,
                          "\": give it like \"step=5 rank=1 parameter=layers.0.mlp.up.weight "
                          "bit=20\"; bits are counted from 0 to ",
                          kBits - 1));
  }
  return WeightDrill(*target, *bit);
}

void WeightDrill::strike(Stream& stream, const ParamStore& held, int rank, std::int64_t step) {
  if (done_ || step != target_.step) return;
  done_ = true;
  if (rank != target_.rank || !take_once(kVariable, target_.once)) return;
  const ParamStore::Owned* const owned = target_.find(held);
  require(owned != nullptr, kVariable, ": the rank holds nothing of the parameter");
  std::byte* const at = owned->master.data + bit_ / 8;
  std::byte byte{};
  copy_bytes(stream, &byte, at, 1);
  stream.synchronize();
  byte ^= std::byte{1} << (bit_ % 8);
  copy_bytes(stream, at, &byte, 1);
  stream.synchronize();
}

}  // namespace trireme
