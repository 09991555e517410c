#include "trainer/tools/plan/estimate/estimate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "model/base/error.h"
#include "trainer/tools/plan/device/matmul_format.h"

namespace trireme {
namespace {

ModelConfig llama(std::int64_t layers, std::int64_t hidden) {
  ModelConfig model;
  model.vocab_size = 128;
  model.hidden_size = hidden;
  model.intermediate_size = 4 * hidden;
  model.num_hidden_layers = layers;
  model.num_attention_heads = model.num_key_value_heads = hidden / 128;
  model.head_dim = 128;
  return model;
}

Workload of(const MeshShape& mesh, std::int64_t micro_batches) {
  EngineSpec spec;
  spec.model = llama(16, 4096);
  spec.data.document_mask = true;
  spec.training.seq_len = 4096;
  spec.compute = DType::kBf16;
  spec.micro_batches = micro_batches;
  spec.bucket = (25 << 20) / 4;
  return {.spec = spec, .mesh = mesh};
}

double sum(const TimeParts& p) {
  return std::accumulate(
      kTimeParts.begin(), kTimeParts.end(), 0.0,
      [&](double seconds, const TimePart& part) { return seconds + p.*part.seconds; });
}

TEST(Estimate, PartsAddUpToTheStep) {
  const DeviceProfile h100 = find_profile("H100");
  for (const int zero : {0, 1, 2, 3}) {
    Workload work = of({.pipeline = 2, .data_shard = 4, .tensor = 2}, 8);
    work.spec.parallelism.zero = zero;
    const StepEstimate step = estimate_step(work, h100);
    EXPECT_NEAR(sum(step.parts), step.seconds, 1e-9 * step.seconds) << zero;
    for (const AxisTraffic& axis : step.traffic) {
      EXPECT_GT(axis.bytes, 0) << axis.axis;
      EXPECT_LE(axis.hidden, axis.seconds) << axis.axis;
    }
    EXPECT_EQ(step.traffic.size(), 3U) << zero;
  }
}

TEST(Estimate, DocumentMasksTakeOurOwnAttention) {
  const auto masked_to_whole = [](const DeviceProfile& gpu) {
    Workload work = of({}, 2);
    const double masked = estimate_step(work, gpu).parts.attention;
    work.spec.data.document_mask = false;
    return masked / estimate_step(work, gpu).parts.attention;
  };
  for (const char* name : {"A100-80G", "H100", "H200"}) {
    const DeviceProfile gpu = find_profile(name);
    const ProductRate& rate = gpu.rate(NumberFormat::kHalf);
    EXPECT_NEAR(masked_to_whole(gpu), rate.flash / rate.own_flash, 0.02) << name;
  }
  DeviceProfile fast = find_profile("H100");
  fast.rates[static_cast<std::size_t>(NumberFormat::kHalf)].own_flash = 0.9;
  EXPECT_DOUBLE_EQ(masked_to_whole(fast), 1);
}

// Both operands of three products are read in 16 bits, for codes of 8 and, unless the op that wrote
// them knows it, for the largest magnitude: inputs twice, with one magnitude, which
// attention alone does not know; gradients once, for two codes, with the activation's known.
TEST(Estimate, Float8PaysForItsQuantization) {
  const DeviceProfile h100 = find_profile("H100");
  Workload work = of({}, 1);
  const double half = estimate_step(work, h100).parts.streams;
  work.spec.precision = MatmulPrecision::kFloat8;
  const double tokens = 4096, hidden = 4096, intermediate = 16384;
  double bytes = 0, passes = 0, weights = 0;
  struct Layer {
    double out, in;
    bool knows_input, knows_gradient;
  };
  for (const auto& [out, in, knows_input, knows_gradient] :
       {Layer{3 * hidden, hidden, true, false}, Layer{hidden, hidden, false, false},
        Layer{2 * intermediate, hidden, true, true}, Layer{hidden, intermediate, true, false}}) {
    bytes += 16 * ((knows_input ? 6 : 8) * tokens * in + (knows_gradient ? 4 : 6) * tokens * out);
    passes += (knows_input ? 2 : 3) + (knows_gradient ? 1 : 2);
    weights += out * in;
  }
  const double rate = h100.stream_bandwidth(NumberFormat::kHalf, "quantize");
  const StepEstimate kept = estimate_step(work, h100);
  const double more = kept.parts.streams - half;
  EXPECT_NEAR(more, bytes / rate + 16 * passes * h100.launch, 1e-3 * more);
  // Weights are read twice for four products of each micro-batch, or once a step.
  work.spec.training.float8_cache_weights = false;
  const StepEstimate each = estimate_step(work, h100);
  EXPECT_NEAR(each.parts.streams - kept.parts.streams,
              16 * (10 * weights / rate + 4 * 4 * h100.launch), 1e-3 * more);
  const double once = kept.parts.optimizer - each.parts.optimizer;
  EXPECT_NEAR(once, 16 * (6 * weights / rate + 4 * 2 * h100.launch), 1e-3 * once);
}

// Both operands of each product are read in 16 bits and written with a scale per block, by NVFP4
// after a pass for the tensor's.
TEST(Estimate, BlockFormatsPayForTheirQuantization) {
  const DeviceProfile b200 = find_profile("B200");
  const Workload work = of({}, 1);
  const StepEstimate half = estimate_step(work, b200);
  const double tokens = 4096, hidden = 4096, intermediate = 16384;
  double elements = 0;
  for (const auto& [out, in] :
       {std::pair{3 * hidden, hidden}, std::pair{hidden, hidden},
        std::pair{2 * intermediate, hidden}, std::pair{hidden, intermediate}}) {
    elements += 16 * 2 * (tokens * in + tokens * out + out * in);
  }
  for (const auto& [numbers, bytes, passes] :
       {std::tuple{NumberFormat::kMxfp8, 2 + 33.0 / 32, 1},
        std::tuple{NumberFormat::kNvfp4, 2 + 2 + 9.0 / 16, 2}}) {
    const DeviceProfile assumed = with_matmul_format(b200, numbers);
    const StepEstimate step = estimate_step(work, assumed);
    EXPECT_NEAR(step.parts.streams - half.parts.streams,
                elements * bytes / b200.stream_bandwidth(NumberFormat::kHalf, "quantize") +
                    16 * 4 * 3 * 2 * passes * b200.launch,
                1e-3 * step.parts.streams)
        << name_of(numbers);
    // But for the head's, and for what small products wait for memory.
    const double faster =
        b200.rate(numbers).peak * b200.rate(numbers).product /
        (b200.rate(NumberFormat::kHalf).peak * b200.rate(NumberFormat::kHalf).product);
    EXPECT_LT(half.parts.products / step.parts.products, faster);
    EXPECT_GT(half.parts.products / step.parts.products, 0.85 * faster);
    EXPECT_EQ(step.parts.attention, half.parts.attention);
    Workload float8 = work;
    float8.spec.precision = MatmulPrecision::kFloat8;
    EXPECT_EQ(estimate_step(float8, assumed).seconds, step.seconds);
  }
  EXPECT_THROW(with_matmul_format(find_profile("H100"), NumberFormat::kMxfp8), ConfigError);
  EXPECT_THROW(with_matmul_format(find_profile("MI300X"), NumberFormat::kNvfp4), ConfigError);
}

// (p - 1) / m over the ideal with equal stages.
TEST(Estimate, TheBubbleIsThatOfTheSchedule) {
  Workload work = of({.pipeline = 4}, 12);
  DeviceProfile h100 = find_profile("H100");
  h100.network.between.latency = h100.network.within.latency = 0;
  h100.network.between.bandwidth = h100.network.within.bandwidth = 1e18;
  const StepEstimate step = estimate_step(work, h100);
  const double busy = step.parts.products + step.parts.attention + step.parts.streams;
  EXPECT_NEAR(step.parts.bubble / busy, 3.0 / 12, 0.01);
}

TEST(Estimate, TheLastBackwardHidesTheSumsOfGradients) {
  DeviceProfile h100 = find_profile("H100");
  Workload work = of({.data_shard = 16}, 1);
  const auto exposed = [&] { return estimate_step(work, h100).parts.gradients; };
  const double held = exposed();
  h100.network.occupied = 0;
  const double hidden = exposed();
  EXPECT_GT(held, 2 * hidden);
  StepOps ops = record_step(work.spec, work.mesh, h100.device());
  ops.overlaps_data = false;
  EXPECT_GT(estimate_step(work, ops, h100).parts.gradients, 5 * hidden);
}

// A backward's gathers and sums are beside one and the same computation.
TEST(Estimate, NoMoreIsHiddenThanThereIsToHideBehind) {
  DeviceProfile h100 = find_profile("H100");
  Workload work = of({.data_shard = 64}, 2);
  for (const int zero : {2, 3}) {
    work.spec.parallelism.zero = zero;
    for (int halvings = 0; halvings < 10; ++halvings) {
      h100.network.between.bandwidth = 50e9 / (1 << halvings);
      const StepEstimate step = estimate_step(work, h100);
      const double computing = step.parts.products + step.parts.attention + step.parts.streams;
      EXPECT_LE(step.traffic.front().hidden, computing * (1 + 1e-9)) << zero << " " << halvings;
    }
  }
}

// Where the cores that compute carry the messages, nothing hides them.
TEST(Estimate, MessagesThatTakeTheRanksCoresAddUp) {
  DeviceProfile h100 = find_profile("H100");
  for (const int zero : {0, 1, 2, 3}) {
    Workload work = of({.data_shard = 8}, 2);
    work.spec.parallelism.zero = zero;
    h100.network.overlaps = true;
    const double hidden = estimate_step(work, h100).seconds;
    h100.network.overlaps = false;
    const StepEstimate step = estimate_step(work, h100);
    EXPECT_GT(step.seconds, hidden) << zero;
    EXPECT_NEAR(sum(step.parts), step.seconds, 1e-9 * step.seconds) << zero;
    ASSERT_EQ(step.traffic.size(), 1U);
    EXPECT_NEAR(step.traffic.front().hidden, 0, 1e-6 * step.seconds) << zero;
  }
}

// Half as many cores as ranks: a rank that waits in the pipeline leaves its share to the others.
TEST(Estimate, RanksThatShareCoresFillEachOthersBubbles) {
  DeviceProfile cpu = find_profile("CPU");
  cpu.network.ranks_per_node = 4;
  Workload work = of({.pipeline = 4}, 4);
  const StepEstimate apart = estimate_step(work, cpu);
  cpu.cores = 2;
  const StepEstimate shared = estimate_step(work, cpu);
  EXPECT_LT(shared.seconds, 0.85 * apart.seconds);
  EXPECT_NEAR(sum(shared.parts), shared.seconds, 1e-9 * shared.seconds);
  cpu.cores = 4;
  EXPECT_NEAR(estimate_step(work, cpu).seconds, apart.seconds, 1e-9 * apart.seconds);
}

// What is read in common is gathered by nobody.
TEST(Estimate, DataRanksOfANodeMayReadEachOthersMemory) {
  DeviceProfile cpu = find_profile("CPU");
  Workload work = of({.data_shard = 2}, 2);
  const StepEstimate sent = estimate_step(work, cpu);
  cpu.network.shared = cpu.network.within;
  EXPECT_LT(estimate_step(work, cpu).parts.optimizer, sent.parts.optimizer);
  const double gradients = estimate_step(work, cpu).parts.gradients;
  cpu.network.shared->bandwidth /= 10;
  EXPECT_GT(estimate_step(work, cpu).parts.gradients, gradients);
}

TEST(Estimate, TheBusiestRankOfExpertsTakesLongerForTheirRowsAlone) {
  const DeviceProfile h100 = find_profile("H100");
  Workload work = of({.data_shard = 8, .tensor = 2}, 4);
  ModelConfig& model = work.spec.model;
  model.num_experts = 16;
  model.num_experts_per_tok = 2;
  model.moe_intermediate_size = 4096;
  const auto step = [&](std::int64_t expert, double imbalance) {
    work.mesh.expert = work.spec.parallelism.expert = expert;
    work.expert_imbalance = imbalance;
    return estimate_step(work, h100);
  };
  const auto seconds_of_exchange = [](const StepEstimate& of_one) {
    for (const AxisTraffic& axis : of_one.traffic) {
      if (axis.axis == "expert") return axis.seconds;
    }
    return 0.0;
  };
  // Each rank that has all experts has all rows.
  EXPECT_EQ(step(1, 1).seconds, step(1, 2).seconds);
  const StepEstimate even = step(4, 1), busy = step(4, 1.5), busiest = step(4, 2);
  EXPECT_EQ(even.parts.attention, busy.parts.attention);
  const double products = busy.parts.products - even.parts.products;
  EXPECT_GT(products, 0.1 * even.parts.products);
  EXPECT_LT(products, 0.5 * even.parts.products);
  EXPECT_NEAR(busiest.parts.products - even.parts.products, 2 * products, 1e-9 * products);
  EXPECT_GT(seconds_of_exchange(even), 0);
  // But for the gather of the counts, which say how many rows are exchanged.
  EXPECT_NEAR(seconds_of_exchange(busy) / seconds_of_exchange(even), 1.5, 0.05);
}

// Of a layer's matmuls a third are weight gradients.
TEST(Estimate, WeightGradientsHaveAnEfficiencyOfTheirOwnIfItWasMeasured) {
  DeviceProfile measured = find_profile("H100");
  ProductRate& half = measured.rates[static_cast<std::size_t>(NumberFormat::kHalf)];
  const Workload work = of({.data_shard = 8}, 4);
  const double products = estimate_step(work, measured).parts.products;
  half.weight_gradient = half.matmul(/*is_grouped=*/false, /*transpose_a=*/false);
  EXPECT_EQ(estimate_step(work, measured).parts.products, products);
  half.weight_gradient->product /= 2;
  EXPECT_NEAR(estimate_step(work, measured).parts.products, 4.0 / 3 * products, 0.05 * products);
}

TEST(Estimate, GroupedMatmulsHaveAnEfficiencyOfTheirOwnIfItWasMeasured) {
  DeviceProfile measured = find_profile("H100");
  ProductRate& half = measured.rates[static_cast<std::size_t>(NumberFormat::kHalf)];
  Workload work = of({.data_shard = 8}, 4);
  const double dense = estimate_step(work, measured).parts.products;
  work.spec.model.num_experts = 16;
  work.spec.model.num_experts_per_tok = 2;
  work.spec.model.moe_intermediate_size = 4096;
  const double sparse = estimate_step(work, measured).parts.products;
  half.grouped = half.matmul(/*is_grouped=*/false, /*transpose_a=*/false);
  EXPECT_EQ(estimate_step(work, measured).parts.products, sparse);
  half.grouped->product /= 2;
  const double slower = estimate_step(work, measured).parts.products;
  EXPECT_GT(slower, 1.2 * sparse);
  half.grouped_weight_gradient = half.grouped;
  EXPECT_EQ(estimate_step(work, measured).parts.products, slower);
  half.grouped_weight_gradient->product *= 2;
  EXPECT_LT(estimate_step(work, measured).parts.products, 0.95 * slower);
  work.spec.model.num_experts = work.spec.model.num_experts_per_tok = 0;
  EXPECT_EQ(estimate_step(work, measured).parts.products, dense);
}

double of_host(const StepEstimate& step) {
  for (const AxisTraffic& axis : step.traffic) {
    if (axis.axis == "host") return axis.bytes;
  }
  return 0;
}

// What is offloaded crosses the host link twice; without it nothing does.
TEST(Estimate, OffloadTakesAsLongAsTheHostLinkNeeds) {
  DeviceProfile h200 = find_profile("H200");
  Workload work = of({.data_shard = 8}, 4);
  const StepEstimate kept = estimate_step(work, h200);
  EXPECT_EQ(of_host(kept), 0);
  EXPECT_EQ(kept.parts.offload, 0);
  const double rate = h200.host.bandwidth * h200.host.reached;
  work.spec.activation_checkpoint.offload = true;
  const StepEstimate activations = estimate_step(work, h200);
  // 12 of the layer's matrices of 4096 x 4096 keep their inputs and more: over 10 activations.
  EXPECT_GT(of_host(activations), 2.0 * 4 * 16 * 10 * 4096 * 4096 * 2);
  EXPECT_GE(activations.seconds, of_host(activations) / rate);
  EXPECT_NEAR(sum(activations.parts), activations.seconds, 1e-9 * activations.seconds);
  EXPECT_NEAR(activations.seconds - activations.parts.offload, kept.seconds, 1e-3 * kept.seconds);
  // Behind a fast link the copies are hidden.
  h200.host.bandwidth *= 100;
  EXPECT_NEAR(estimate_step(work, h200).seconds, kept.seconds, 1e-9 * kept.seconds);
  h200.host.bandwidth /= 100;
  work.spec.activation_checkpoint.offload = false;
  work.spec.optimizer.offload = true;
  const StepEstimate state = estimate_step(work, h200);
  // Float32 masters and two moments, in and out.
  EXPECT_NEAR(of_host(state), 2 * 12 * 16 * (12.0 * 4096 * 4096 + 4 * 4096 * 4096) / 8,
              0.01 * of_host(state));
  EXPECT_NEAR(state.seconds + kept.parts.optimizer,
              kept.seconds + of_host(state) / 2 / rate + kept.parts.optimizer,
              kept.parts.optimizer);
  h200.host = {};
  EXPECT_THROW(estimate_step(work, h200), ConfigError);
  // The CPU has nothing to offload to.
  DeviceProfile cpu = find_profile("CPU");
  EXPECT_EQ(estimate_step(work, cpu).parts.offload, 0);
}

TEST(Estimate, SixteenThousandRanksTakeAMoment) {
  Workload work = of({.pipeline = 16, .data_shard = 128, .tensor = 8}, 64);
  work.spec.parallelism.sequence = true;
  work.spec.parallelism.schedule = "Interleaved1F1B";
  EXPECT_EQ(work.ranks(), 16384);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_GT(estimate_step(work, find_profile("H100")).seconds, 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(Estimate, UnknownDevicesAndNumbersAreNamed) {
  EXPECT_THROW(find_profile("H1000"), ConfigError);
  EXPECT_EQ(find_profile("h100").name, "H100");
  Workload work = of({}, 1);
  work.spec.precision = MatmulPrecision::kFloat8;
  EXPECT_THROW(estimate_step(work, find_profile("A100-80G")), ConfigError);
}

// What a lower limit leaves for products is less than its share: an idle device takes 122 W.
TEST(Profile, PartOfThePowerDoesNotFallWithTheClock) {
  const double full = find_profile("H100").rate(NumberFormat::kHalf).product,
               limited = find_profile("H100-500W").rate(NumberFormat::kHalf).product;
  EXPECT_NEAR(limited / full, std::cbrt((500 - 122.0) / (700 - 122)), 1e-9);
}

TEST(Profile, DevicesByDataSheetHaveTheirDomains) {
  const auto seconds = [](const char* name, int size, std::int64_t ranks) {
    const DeviceProfile device = find_profile(name);
    return collective_seconds(with_even_nodes(device.network, ranks), Collective::kAllGather,
                              {size, 1, static_cast<int>(ranks)}, 1e11);
  };
  // 64 of the 72 GPUs of a rack; B200 has the same link between 8.
  EXPECT_NEAR(seconds("GB200", 64, 256) / seconds("B200", 8, 256), 9.0 / 8, 0.1);
  EXPECT_GT(seconds("B200", 64, 256), 1.7 * seconds("GB200", 64, 256));
  // A pair of MI300X has one of seven links.
  EXPECT_NEAR(seconds("MI300X", 2, 8) / seconds("MI300X", 8, 8), 7 * 4.0 / 7, 0.1);
  for (const DeviceProfile& device : listed_profiles()) {
    const bool has_blocks = device.name.find("B200") != std::string::npos ||
                            device.name.find("B300") != std::string::npos;
    EXPECT_EQ(device.rate(NumberFormat::kMxfp8).peak > 0, has_blocks) << device.name;
    EXPECT_EQ(device.rate(NumberFormat::kNvfp4).peak > 0, has_blocks) << device.name;
  }
}

TEST(Profile, RanksThatWaitSpeedUpThoseThatShareTheirCores) {
  DeviceProfile cpu = find_profile("CPU");
  cpu.cores = 2;
  cpu.network.ranks_per_node = 8;
  EXPECT_EQ(cpu.pace(8), 1);
  EXPECT_EQ(cpu.pace(4), 2);
  EXPECT_EQ(cpu.pace(1), 4);
  cpu.idle_time_used = 0.5;
  EXPECT_EQ(cpu.pace(8), 1);
  EXPECT_EQ(cpu.pace(4), 1.5);
}

TEST(Estimate, RanksInLockstepAreThoseThatMeetInLayersOrOnceAStepOnCoresOfTheirOwn) {
  DeviceProfile cpu = find_profile("CPU");
  cpu.network.ranks_per_node = 4;
  cpu.network.lockstep = 0.25;
  const auto waiting = [&](const MeshShape& mesh) {
    return estimate_step(of(mesh, 4), cpu).parts.waiting;
  };
  cpu.cores = 4;
  EXPECT_GT(waiting({.data_shard = 4}), 0);
  EXPECT_GT(waiting({.tensor = 4}), 0);
  EXPECT_EQ(waiting({.pipeline = 4}), 0);
  cpu.cores = 2;
  EXPECT_EQ(waiting({.data_shard = 4}), 0);
  EXPECT_GT(waiting({.tensor = 4}), 0);
}

TEST(Estimate, RanksThatShareCoresAreInLockstepIfTheyWaitForCollectivesInLayers) {
  DeviceProfile cpu = find_profile("CPU");
  cpu.network.ranks_per_node = 4;
  cpu.network.lockstep = 0.25;
  cpu.cores = 2;
  const auto waiting = [&](ContextMethod method, std::int64_t ulysses, std::int64_t zero) {
    Workload work = of({.context = 4}, 4);
    work.spec.parallelism.context = 4;
    work.spec.parallelism.context_method = method;
    work.spec.parallelism.context_ulysses = ulysses;
    work.spec.parallelism.zero = zero;
    return estimate_step(work, cpu).parts.waiting;
  };
  EXPECT_GT(waiting(ContextMethod::kAllGather, 1, 1), 0);
  EXPECT_GT(waiting(ContextMethod::kUlysses, 4, 1), 0);
  EXPECT_GT(waiting(ContextMethod::kRing, 2, 1), 0);
  EXPECT_EQ(waiting(ContextMethod::kRing, 1, 1), 0);
  EXPECT_EQ(waiting(ContextMethod::kRing, 1, 2), 0);
  EXPECT_GT(waiting(ContextMethod::kRing, 1, 3), 0);
  const double of_all = waiting(ContextMethod::kUlysses, 4, 1);
  const double of_pairs = waiting(ContextMethod::kRing, 2, 1);
  cpu.network.within_groups = {{2, cpu.network.within, 0.125}};
  EXPECT_DOUBLE_EQ(waiting(ContextMethod::kUlysses, 4, 1), of_all);
  EXPECT_DOUBLE_EQ(waiting(ContextMethod::kRing, 2, 1), of_pairs / 2);
}

TEST(Profile, ComesBackAsItWasWritten) {
  const auto path = std::filesystem::path(testing::TempDir()) / "profile.json";
  DeviceProfile written = find_profile("H200");
  written.name = "mine";
  written.cores = 3;
  written.idle_time_used = 0.5;
  written.network.shared = written.network.within;
  written.network.within_groups = {{2, written.network.between, 0.125}};
  written.network.overlaps = false;
  written.network.lockstep = 0.25;
  written.host.bandwidth = 7;
  ProductRate& half = written.rates[static_cast<std::size_t>(NumberFormat::kHalf)];
  half.half_rows = half.half_columns = half.half_width = half.half_keys = 5;
  half.streams = {{"swiglu", 0.3}};
  half.grouped = {.product = 0.4, .half_depth = 6, .half_rows = 7, .half_columns = 8};
  half.weight_gradient = {.product = 0.5, .half_depth = 9};
  half.grouped_weight_gradient = {.product = 0.6, .half_columns = 10};
  write_profile(path, written);
  const DeviceProfile read = find_profile(path.string());
  EXPECT_EQ(read.name, "mine");
  EXPECT_EQ(read.host.bandwidth, 7);
  EXPECT_EQ(read.idle_time_used, 0.5);
  ASSERT_EQ(read.network.within_groups.size(), 1U);
  EXPECT_EQ(read.network.within_groups.front().ranks, 2);
  EXPECT_EQ(read.network.within_groups.front().lockstep, 0.125);
  EXPECT_EQ(read.network.within_groups.front().link.latency, written.network.between.latency);
  EXPECT_EQ(read.band.least, kSharedCoresBand.least);
  EXPECT_EQ(read.rate(NumberFormat::kHalf).grouped.value().half_rows, 7);
  EXPECT_EQ(read.rate(NumberFormat::kHalf).weight_gradient.value().half_depth, 9);
  EXPECT_EQ(read.rate(NumberFormat::kHalf).grouped_weight_gradient.value().half_columns, 10);
  const Workload work = of({.data_shard = 16, .tensor = 2}, 2);
  EXPECT_EQ(estimate_step(work, read).seconds, estimate_step(work, written).seconds);
  const StepEstimate waiting = estimate_step(work, read);
  // Of the pairs of tensor parallelism.
  written.network.within_groups.front().lockstep = 0;
  const double share = straggling(read.network, 32) + 0.125, parts = waiting.parts.waiting;
  EXPECT_NEAR(parts / (waiting.seconds - parts - waiting.parts.optimizer), share, 1e-9);
  EXPECT_LT(estimate_step(work, written).seconds, waiting.seconds);
  half.streams.clear();
  EXPECT_GT(estimate_step(work, read).parts.streams, estimate_step(work, written).parts.streams);
  DeviceProfile gb300 = find_profile("GB300");
  gb300.network.pairwise = true;
  write_profile(path, gb300);
  const DeviceProfile again = read_profile(path);
  EXPECT_TRUE(again.network.even && again.network.pairwise);
  EXPECT_EQ(again.band.least, kMeasuredBand.least);
  EXPECT_EQ(again.rate(NumberFormat::kNvfp4).peak, 15e15);
  EXPECT_EQ(again.network.ranks_of_host(), 4);
  EXPECT_EQ(read.network.ranks_of_host(), read.network.ranks_per_node);
  written.memory_bandwidth = 0;
  write_profile(path, written);
  EXPECT_THROW(read_profile(path), ConfigError);
}

}  // namespace
}  // namespace trireme
