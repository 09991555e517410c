#include "parallel/tensor/partial_gradients.h"

#include <gtest/gtest.h>

#include "parallel/comm/self_communicator.h"
#include "tests/parallel/thread_communicator.h"

namespace trireme::test {
namespace {

constexpr int kRanks = 4;

// Gradients of four ranks, two of which share each half of "key".
struct Rank {
  ParamStore params;
  Arena weights{1 << 16}, masters{0}, gradients{1 << 16}, messages{1 << 14};
  explicit Rank(int rank) {
    const Slice holders{rank, kRanks};
    params.declare({.name = "gain", .shape = {5}, .cut = whole(holders), .partial = true});
    params.declare({.name = "same", .shape = {7}, .cut = whole(holders)});
    const Cut half = cut_pieces(0, 2, holders);
    params.declare(
        std::vector<ParamSpec>{{.name = "query", .shape = {8, 3}, .cut = {0, holders}},
                               {.name = "key", .shape = {4, 3}, .cut = half, .partial = true},
                               {.name = "value", .shape = {4, 3}, .cut = half, .partial = true}});
    params.declare({.name = "bias", .shape = {3}, .cut = whole(holders), .partial = true});
    params.allocate({weights, masters, &gradients}, DType::kF64);
    for (std::int64_t i = 0; i < params.grads().count(); ++i) {
      params.grads().as<double>()[i] = start(rank, i);
    }
  }
  // What a rank's element of its flat gradients is before they are summed.
  static double start(int rank, std::int64_t i) {
    return static_cast<double>(1000 * (rank + 1) * (rank + 1) + i);
  }
};

void expect_summed(const Param& param, int rank) {
  const std::string& name = param.spec.name;
  for (std::int64_t i = 0; i < param.grad.count(); ++i) {
    double expected = 0;
    for (int other = 0; other < kRanks; ++other) {
      const bool shares = name == "same" || name == "query"  ? other == rank
                          : name == "key" || name == "value" ? other / 2 == rank / 2
                                                             : true;
      if (shares) expected += Rank::start(other, param.offset + i);
    }
    EXPECT_EQ(param.grad.as<double>()[i], expected) << name << " " << i << " of rank " << rank;
  }
}

TEST(PartialGradients, are_summed_over_their_replicas_whatever_the_message) {
  // All in one message, the keys and values where they lie, all where they lie.
  for (const std::int64_t large : {1000, 6, 1}) {
    ThreadGroup all(kRanks), low(2), high(2);
    run_ranks(kRanks, {&all, &low, &high}, [&](int rank) {
      ThreadCommunicator tensor(all, rank), sharers(rank < 2 ? low : high, rank % 2);
      Rank held(rank);
      Stream stream;
      PartialGradients(held.params, {&tensor, &sharers}, held.messages, large).sum(stream);
      for (const Weight& weight : held.params.weights()) {
        for (const Param& param : weight.parts) expect_summed(param, rank);
      }
      EXPECT_EQ(held.messages.peak() > 0, large > 1);
    });
  }
}

TEST(PartialGradients, one_without_a_group_to_be_summed_in_is_refused) {
  ThreadGroup all(kRanks);
  ThreadCommunicator tensor(all, 0);
  Rank held(0);
  try {
    PartialGradients(held.params, {&tensor}, held.messages);
    FAIL() << "not noticed";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("parameter key"), std::string::npos) << error.what();
  }
}

TEST(PartialGradients, alone_there_is_nothing_to_sum) {
  ParamStore params;
  Arena weights(1 << 14), masters(0), gradients(1 << 14), messages(0);
  params.declare({.name = "gain", .shape = {5}, .cut = whole({}), .partial = true});
  params.allocate({weights, masters, &gradients}, DType::kF32);
  SelfCommunicator self;
  Stream stream;
  PartialGradients(params, {&self}, messages).sum(stream);
  EXPECT_EQ(messages.peak(), 0U);
}

}  // namespace
}  // namespace trireme::test
