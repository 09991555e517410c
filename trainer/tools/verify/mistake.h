#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/launcher.h"
#include "trainer/config/run_config.h"
#include "trainer/engine/rank_groups.h"

namespace trireme {
struct EngineSpec;
}

namespace trireme::verify {

class Samples;
class Subject;

// A bug injected into the subject to test verify, selected by name:
//   TRIREME_INJECT_MISTAKE=lost-norm-sums
// Each reproduces a typical bug of a parallel layout. Mistakes are injected into communicators and
// engine inputs; training code contains none of them.
class Mistake {
 public:
  static constexpr const char* kVariable = "TRIREME_INJECT_MISTAKE";

  // Null if the variable is not set. Throws ConfigError with the known names.
  static std::unique_ptr<Mistake> from(const Variables& variables);
  static std::vector<std::string> names();

  Mistake() = default;
  Mistake(const Mistake&) = delete;
  Mistake& operator=(const Mistake&) = delete;
  virtual ~Mistake() = default;

  // Whether it took effect on this rank so far; some layouts do not have its code path.
  bool was_made() const { return made_; }

  // Injection points, in the order of a step.
  virtual void make_in(RankGroups& /*groups*/) {}
  virtual void in_spec(EngineSpec& /*spec*/) {}
  virtual void in_first_weights(const Subject& /*subject*/) {}
  virtual std::uint64_t in_first_sample(const Subject& /*subject*/, std::uint64_t first) {
    return first;
  }
  virtual void in_batch(const Subject& /*subject*/, const Samples& /*samples*/,
                        std::int64_t /*step*/) {}
  virtual std::int64_t in_valid_tokens(const Subject& /*subject*/, std::int64_t valid) {
    return valid;
  }
  virtual void in_gradients(const Subject& /*subject*/) {}
  virtual std::int64_t in_update_number(std::int64_t update) { return update; }
  virtual double in_learning_rate(const Subject& /*subject*/, double rate) { return rate; }
  virtual void in_weights(const Subject& /*subject*/) {}

 protected:
  void note_made() { made_ = true; }

 private:
  bool made_ = false;
};

}  // namespace trireme::verify
