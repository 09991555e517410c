#include "tests/trainer/layout/trained_alone.h"

#include <cstring>
#include <memory>
#include <utility>

#include "model/base/philox.h"
#include "tests/parallel/mpi_world.h"

namespace trireme::tests {

std::int64_t fill(Engine& engine, std::uint64_t step) {
  const data::TokenBatch batch = engine.batch();
  std::int64_t valid = 0;
  std::int32_t start = 0, length = 0;
  const auto of_micro_batch = static_cast<std::size_t>(kMicroBatch * batch.seq_len);
  const bool has_documents = engine.spec().data.document_mask;
  for (std::size_t i = 0; i < batch.ids.size(); ++i) {
    const std::int64_t number = engine.micro_batches().number(
        engine.data_rank(), static_cast<std::int64_t>(i / of_micro_batch));
    const auto words =
        philox(step, static_cast<std::uint64_t>(number) * of_micro_batch + i % of_micro_batch);
    const auto place = static_cast<std::int32_t>(i % batch.seq_len);
    if (place == 0 || (has_documents && place == start + length)) {
      start = place;
      length = 5 + static_cast<std::int32_t>(words[2] % 7);
    }
    batch.ids[i] = static_cast<std::int32_t>(words[0] % kVocab);
    const bool counts = words[3] % 7 != 0;
    batch.targets[i] = counts ? static_cast<std::int32_t>(words[1] % kVocab) : -1;
    valid += counts;
    batch.positions[i] = place - start;
    batch.document_start[i] = start;
  }
  for (std::int64_t own = 0; own < engine.micro_batches().of_each; ++own) {
    const auto number =
        static_cast<std::uint64_t>(engine.micro_batches().number(engine.data_rank(), own));
    data::draw_dropout_words(batch.part(own * kMicroBatch, kMicroBatch), step,
                             number * kMicroBatch);
  }
  return valid;
}

void prepare(Engine& engine, const Prepare& how) {
  if (!how) return;
  how(engine.model().params());
  engine.model().publish_masters(engine.stream());
}

namespace {

Gradients gradients_of(ParamStore& alone) {
  Gradients found;
  for (const Weight& weight : alone.weights()) {
    for (const Param& param : weight.parts) {
      const auto* first = param.grad.as<float>();
      found[param.spec.name].assign(first, first + param.grad.count());
    }
  }
  return found;
}

Reference train_alone(const EngineSpec& spec, int steps, const Prepare& how) {
  const RankGroups alone;
  Trainer trainer(spec, alone);
  prepare(trainer.engine, how);
  Reference found;
  for (int step = 1; step <= steps; ++step) {
    const std::int64_t valid = fill(trainer.engine, static_cast<std::uint64_t>(step));
    const double loss = compute_gradients(trainer.engine, valid);
    Gradients gradients = gradients_of(trainer.engine.model().params());
    const double norm = apply_update(trainer.engine, 1e-3, step).grad_norm;
    found.steps.push_back({valid, loss, norm, std::move(gradients)});
  }
  found.evaluated = trainer.engine.evaluate();
  return found;
}

// Values in the order in which every rank sends or receives them.
class Message {
 public:
  template <class T>
  void put(const T& value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void put(const std::string& text) {
    put(text.size());
    bytes_ += text;
  }
  template <class T>
  T take() {
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string take_text() {
    const auto size = take<std::size_t>();
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  void broadcast(Communicator& ranks, int root) {
    Stream stream;
    std::int32_t words = static_cast<std::int32_t>((bytes_.size() + 3) / 4);
    const auto sent = [](std::int32_t* first, std::int64_t count) {
      return Tensor{reinterpret_cast<std::byte*>(first), DType::kI32, {count}, {}};
    };
    ranks.broadcast(stream, sent(&words, 1), root);
    bytes_.resize(words * 4);
    ranks.broadcast(stream, sent(reinterpret_cast<std::int32_t*>(bytes_.data()), words), root);
  }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

Message sent(const Reference& reference) {
  Message message;
  message.put(reference.evaluated);
  message.put(reference.steps.size());
  for (const Reference::Step& step : reference.steps) {
    message.put(step.valid);
    message.put(step.loss);
    message.put(step.norm);
    message.put(step.gradients.size());
    for (const auto& [name, values] : step.gradients) {
      message.put(name);
      message.put(values.size());
      for (const float value : values) message.put(value);
    }
  }
  return message;
}

Reference received(Message& message) {
  Reference reference;
  reference.evaluated = message.take<double>();
  reference.steps.resize(message.take<std::size_t>());
  for (Reference::Step& step : reference.steps) {
    step.valid = message.take<std::int64_t>();
    step.loss = message.take<double>();
    step.norm = message.take<double>();
    for (auto left = message.take<std::size_t>(); left > 0; --left) {
      std::vector<float>& values = step.gradients[message.take_text()];
      values.resize(message.take<std::size_t>());
      for (float& value : values) value = message.take<float>();
    }
  }
  return reference;
}

}  // namespace

Reference trained_alone(const EngineSpec& spec, int steps, const Prepare& how) {
  const std::unique_ptr<Communicator> ranks = all_ranks();
  static int turn = 0;
  const int root = turn++ % ranks->size();
  Message message;
  if (ranks->rank() == root) message = sent(train_alone(spec, steps, how));
  message.broadcast(*ranks, root);
  return received(message);
}

}  // namespace trireme::tests
