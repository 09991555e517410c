#include "trainer/loop/gradient_drill.h"

#include "model/base/error.h"
#include "model/device/copy.h"
#include "trainer/loop/drill_words.h"

namespace trireme {

std::optional<GradientDrill> GradientDrill::from(const Variables& variables) {
  const auto text = variables(kVariable);
  if (!text) return std::nullopt;
  const auto target = DrillTarget::parse(kVariable, *text, "value");
  const auto value = target ? drill_number<double>(target->own) : std::nullopt;
  if (!value) {
    throw ConfigError(say(kVariable, "=\"", *text,
                          "\": give it like \"step=5 rank=1 parameter=layers.0.mlp.up.weight "
                          "value=nan\"; the value may be any number"));
  }
  return GradientDrill(*target, *value);
}

void GradientDrill::strike(Stream& stream, const ParamStore& held, int rank, std::int64_t step) {
  if (done_ || step != target_.step) return;
  done_ = true;
  if (rank != target_.rank || !take_once(kVariable, target_.once)) return;
  const ParamStore::Owned* const owned = target_.find(held);
  require(owned != nullptr, kVariable, ": the rank holds nothing of the parameter");
  const auto write = [&](const auto value) {
    copy_bytes(stream, owned->grad.data, reinterpret_cast<const std::byte*>(&value), sizeof value);
    stream.synchronize();
  };
  if (owned->grad.dtype == DType::kF64) {
    write(value_);
  } else {
    write(static_cast<float>(value_));
  }
}

}  // namespace trireme
