#include "trainer/engine/whole_model.h"

#include <algorithm>
#include <list>
#include <utility>

#include "model/stage/stage.h"

namespace trireme {
namespace {

ParamStore declared(const WholeModel::Spec& spec, Region& region, AttentionCore& attention) {
  ParamStore params;
  UnitHooks hooks;
  const Stage declares_all(params, spec.model,
                           {.end_block = spec.model.num_hidden_layers,
                            .max_positions = spec.max_positions,
                            .vocab_tile = spec.vocab_tile,
                            .tied_gradient_apart = spec.tied_gradient_apart},
                           {region, attention}, hooks);
  params.lay_out({});
  return params;
}

// The last ones used are first. Those of many layers take up to tens of megabytes.
class RecentModels {
 public:
  template <class Make>
  std::shared_ptr<const WholeModel> of(const WholeModel::Spec& spec, const Make& make) {
    const auto known =
        std::find_if(all_.begin(), all_.end(), [&](const auto& one) { return one.first == spec; });
    if (known != all_.end()) {
      all_.splice(all_.begin(), all_, known);
      return all_.front().second;
    }
    all_.emplace_front(spec, make());
    parameters_ += size_of(*all_.front().second);
    while (parameters_ > kMostParameters && all_.size() > 1) {
      parameters_ -= size_of(*all_.back().second);
      all_.pop_back();
    }
    return all_.front().second;
  }

 private:
  static constexpr std::size_t kMostParameters = 150'000;
  static std::size_t size_of(const WholeModel& model) {
    std::size_t count = 0;
    for (const Weight& weight : model.params().weights()) count += weight.parts.size();
    return count;
  }

  std::list<std::pair<WholeModel::Spec, std::shared_ptr<const WholeModel>>> all_;
  std::size_t parameters_ = 0;
};

}  // namespace

WholeModel::WholeModel(const Spec& spec, Region& region, AttentionCore& attention)
    : params_(declared(spec, region, attention)), chunks_(params_, region.slice()) {}

std::shared_ptr<const WholeModel> whole_model(const WholeModel::Spec& spec, Region& region,
                                              AttentionCore& attention) {
  thread_local RecentModels recent;
  return recent.of(spec,
                   [&] { return std::make_shared<const WholeModel>(spec, region, attention); });
}

}  // namespace trireme
