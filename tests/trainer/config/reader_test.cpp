#include "trainer/config/reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/trainer/config/support.h"
#include "trainer/config/flavors.h"
#include "trainer/config/notes.h"
#include "trainer/config/value_text.h"

namespace trireme {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

TEST(reader, a_short_config_gets_the_rest_from_defaults) {
  const RunConfig config = read(kGood).config;
  EXPECT_EQ(config.flavor, "tiny");
  EXPECT_EQ(config.model.hidden_size, 64);
  EXPECT_EQ(config.training.steps, 100);
  EXPECT_EQ(config.training.global_batch_size, 1);
  EXPECT_EQ(config.optimizer, OptimizerOptions{});
  EXPECT_EQ(config.checkpoint, CheckpointConfig{});
}

TEST(reader, every_complaint_is_told_at_once_with_its_place) {
  std::string flavors;
  for (const std::string& name : flavor_names()) {
    flavors += say(flavors.empty() ? "" : ", ", to_toml(name));
  }
  EXPECT_EQ(
      complaint("[model]\n"
                "flavor = \"tniy\"\n"
                "[trainning]\n"
                "[optimizer]\n"
                "lr = \"fast\"\n"
                "  beta3 = 0.9\n"
                "beta1 = 1.0\n"
                "[data]\n"
                "train = [{ path = \"a\", wieght = 2 }]\n"
                "[training]\n"
                "steps = 1.5\n",
                {{"metrics.log_frq", "3"}}),
      "8 errors in the config\n"
      "  run.toml:2:10: model.flavor = \"tniy\": must be one of " +
          flavors +
          "; did you mean \"tiny\"?\n"
          "  run.toml:3:2: [trainning]: unknown section; did you mean [training]?\n"
          "  run.toml:5:6: optimizer.lr = \"fast\": must be a number, not text\n"
          "  run.toml:6:3: optimizer.beta3 = 0.9: unknown key; did you mean optimizer.beta1?\n"
          "  run.toml:7:9: optimizer.beta1 = 1.0: must be at least 0 and below 1\n"
          "  run.toml:9:24: data.train[0].wieght = 2: unknown key; did you mean weight?\n"
          "  run.toml:11:9: training.steps = 1.5: must be an integer, without a fraction\n"
          "  command line: --metrics.log_frq = 3: unknown key; did you mean "
          "--metrics.log_freq?")
      << "a refused flavor or length must not be reported as missing as well";
}

TEST(reader, one_complaint_is_one_line) {
  EXPECT_EQ(complaint(kGood + "local_batch_size = 0\n"),
            "run.toml:7:20: training.local_batch_size = 0: must be between 1 and 1048576");
}

TEST(reader, a_key_of_another_section_is_found_there) {
  EXPECT_THAT(complaint(kGood + "warmup_steps = 3\n"),
              HasSubstr("training.warmup_steps = 3: unknown key; did you mean "
                        "lr_scheduler.warmup_steps?"));
  EXPECT_THAT(complaint("lr = 3\n" + kGood),
              HasSubstr("run.toml:1:1: lr = 3: keys must be inside a section; did you mean "
                        "optimizer.lr?"));
}

TEST(reader, the_names_of_other_trainers_lead_to_ours) {
  for (const auto& [typed, ours] :
       {std::pair{"[training]\nmax_steps = 3", "training.steps"},
        std::pair{"[training]\ntrain_iters = 3", "training.steps"},
        std::pair{"[training]\nlearning_rate = 3", "optimizer.lr"},
        std::pair{"[optimizer]\nlearning_rate = 3", "optimizer.lr"},
        std::pair{"[training]\nbf16 = true", "training.dtype"},
        std::pair{"[training]\nmicro_batch_size = 3", "training.local_batch_size"},
        std::pair{"[training]\nlr = 3", "optimizer.lr"},
        std::pair{"[model]\nn_layers = 3", "model.num_hidden_layers"},
        std::pair{"[model]\nname = 3", "model.flavor"},
        std::pair{"[parallelism]\ntp = 2", "parallelism.tensor"},
        std::pair{"[parallelism]\ntensor-model-parallel-size = 2", "parallelism.tensor"},
        std::pair{"[checkpoint]\nsave_interval = 2", "checkpoint.interval"},
        std::pair{"[model]\nmoe_z_loss_coeff = 1e-3", "model.router_z_loss_coef"},
        std::pair{"max_steps = 3", "training.steps"}}) {
    EXPECT_THAT(complaint(typed), HasSubstr(std::string("; did you mean ") + ours + "?")) << typed;
  }
  EXPECT_THAT(complaint(kGood, {{"parallelism.pp", "2"}}),
              HasSubstr("did you mean --parallelism.pipeline?"));
}

TEST(reader, a_known_feature_that_is_not_built_is_named) {
  for (const auto& [typed, why] :
       {std::pair{"[training]\ncompile = true",
                  "not needed: all kernels are compiled ahead of time"},
        std::pair{"[model]\nmoe_layer_freq = 2",
                  "this mixture-of-experts setting is not supported yet"},
        std::pair{"[model]\nresid_pdrop = 0.1", "dropout is set by training.attention_dropout"},
        std::pair{"[training]\nepochs = 3",
                  "set the length of the run by training.steps or training.tokens"},
        std::pair{"[parallelism]\ncp = 2", "context parallelism is set by parallelism.context"}}) {
    EXPECT_THAT(complaint(typed), HasSubstr(std::string("unknown key; ") + why)) << typed;
  }
}

TEST(reader, a_schedule_in_other_letters_is_refused_with_the_right_ones) {
  const std::string text = kGood + "[parallelism]\nschedule = ";
  EXPECT_THAT(complaint(text + "\"1f1b\"\n"), HasSubstr("did you mean \"1F1B\"?"));
  EXPECT_THAT(complaint(text + "\"interleaved1f1b\"\n"),
              HasSubstr("did you mean \"Interleaved1F1B\"?"));
  EXPECT_THAT(complaint(text + "\"DualPipe\"\n"), HasSubstr("or the path of a file, with a dot"));
  EXPECT_EQ(read(text + "\"mine.csv\"\n").config.parallelism.schedule, "/home/me/mine.csv");
}

TEST(reader, a_number_with_a_point_where_an_integer_belongs) {
  EXPECT_THAT(complaint(kGood + "seq_len = 10.5\n"),
              HasSubstr("training.seq_len = 10.5: must be an integer, without a fraction"));
  EXPECT_THAT(complaint(kGood + "seq_len = 1e3\n"),
              HasSubstr("must be an integer: write 1000, without a point or an exponent"));
}

TEST(reader, what_only_looks_at_a_run_needs_no_data) {
  const std::string text =
      "[model]\nflavor = \"tiny\"\n[training]\nsteps = 100\n[validation]\nfreq = 5\n";
  EXPECT_THAT(complaint(text), HasSubstr("data.train"));
  EXPECT_EQ(
      read_config({"run.toml", text, "/home/me"}, {}, Purpose::kPlanning).config.model.head_dim,
      16);
}

TEST(reader, what_may_not_be_meant_is_noted) {
  const auto notes = [](const std::vector<Override>& overrides) {
    return config_notes(read(kGood, overrides).config);
  };
  EXPECT_TRUE(notes({{"training.seq_len", "64"}}).empty());
  EXPECT_TRUE(notes({{"lr_scheduler.warmup_steps", "100"}, {"training.seq_len", "64"}}).empty());
  const auto warmup = notes({{"lr_scheduler.warmup_steps", "101"}, {"training.seq_len", "64"}});
  ASSERT_EQ(warmup.size(), 1U);
  EXPECT_THAT(warmup[0],
              HasSubstr("lr_scheduler.warmup_steps = 101 is longer than the run of 100"));
  const auto positions =
      notes({{"model.max_position_embeddings", "64"}, {"training.seq_len", "65"}});
  ASSERT_EQ(positions.size(), 1U);
  EXPECT_THAT(positions[0], HasSubstr("model.max_position_embeddings = 64 is below"));
  const auto yarn = [&](const std::string& factor) {
    return notes({{"training.seq_len", "64"},
                  {"model.rope_scaling", "{ rope_type = \"yarn\", factor = " + factor +
                                             ", original_max_position_embeddings = 16 }"}});
  };
  EXPECT_TRUE(yarn("4").empty());
  ASSERT_EQ(yarn("3.5").size(), 1U);
  EXPECT_THAT(yarn("3.5")[0], HasSubstr("extends 16 positions by factor = 3.5 to 56, below"));
}

TEST(reader, what_is_no_toml_is_refused_with_its_place) {
  EXPECT_THAT(complaint("[model\n"), HasSubstr("run.toml:1:7: "));
  EXPECT_THAT(complaint("[training]\nsteps = 3\nsteps = 4\n"), HasSubstr("run.toml:3:"));
  EXPECT_THAT(complaint("[job]\ndescription = \"\xff\"\n"), HasSubstr("run.toml:2:"));
  EXPECT_THAT(complaint("training = 3\n"), HasSubstr("is a section; write [training]"));
  EXPECT_THAT(complaint("[[training]]\nsteps = 3\n"), HasSubstr("is a section"));
  EXPECT_NE(complaint(""), "");
}

TEST(reader, an_integer_will_do_for_a_number_but_not_the_other_way) {
  EXPECT_EQ(read(kGood + "max_norm = 2\n").config.training.max_norm, 2.0);
  EXPECT_THAT(complaint(kGood + "seq_len = 8.0\n"), HasSubstr("must be an integer"));
  EXPECT_THAT(complaint(kGood + "seq_len = \"8\"\n"), HasSubstr("must be an integer, not text"));
  EXPECT_THAT(complaint(kGood + "seq_len = true\n"), HasSubstr("not true or false"));
  EXPECT_THAT(complaint(kGood + "[job]\nreproducible = 1\n"), HasSubstr("must be true or false"));
}

TEST(reader, nan_infinity_and_overflow_are_refused) {
  for (const char* value : {"nan", "inf", "-inf", "1e999"}) {
    EXPECT_NE(complaint(kGood + "max_norm = " + value + "\n"), "") << value;
  }
  EXPECT_NE(complaint(kGood + "seq_len = 9223372036854775808\n"), "");
  EXPECT_NE(complaint(kGood + "seq_len = 9223372036854775807\n"), "");
}

TEST(reader, text_that_would_overflow_the_parsers_stack_is_refused) {
  std::string dots = "a";
  for (int i = 0; i < 300000; ++i) dots += ".a";
  EXPECT_THAT(complaint(say("[", dots.substr(0, 60000), "]")), HasSubstr("nested too deeply"));
  EXPECT_THAT(complaint(dots.substr(0, 60000) + " = 1\n"), HasSubstr("nested too deeply"));
  EXPECT_THAT(complaint(say("x = ", std::string(50000, '['))), HasSubstr("nested too deeply"));
  EXPECT_THAT(complaint("\"\" . " + dots), HasSubstr("nested too deeply"));
  EXPECT_THAT(complaint(std::string(2000000, '\n')), HasSubstr("longer than"));
  EXPECT_EQ(complaint(kGood + "[job]\ndescription = \"" + dots.substr(0, 1000) + "\"\n"), "");
}

TEST(reader, the_long_names_of_the_parallel_axes_are_known) {
  EXPECT_EQ(complaint(kGood + "[parallelism]\ntensor_parallel_degree = 1\n"), "");
  EXPECT_THAT(complaint(kGood + "[parallelism]\ntensor_parallel_degree = 1\ntensor = 1\n"),
              HasSubstr("is already set by parallelism.tensor"));
}

TEST(reader, a_list_of_layers_is_taken_whole_or_refused) {
  using Layers = std::vector<std::int64_t>;
  const std::string section = kGood + "[parallelism]\nlayers_per_stage = ";
  EXPECT_EQ(read(section + "[2, 1, 1]\n").config.parallelism.layers_per_stage, (Layers{2, 1, 1}));
  EXPECT_THAT(complaint(section + "[2, 1.5]\n"),
              HasSubstr("parallelism.layers_per_stage[1] = 1.5: must be an integer"));
  EXPECT_THAT(complaint(section + "4\n"), HasSubstr("must be a list of integers"));
}

TEST(reader, a_ramp_of_the_batch_is_pairs) {
  const auto ramp = [](const char* pairs) {
    return std::vector<Override>{{"training.rampup_batch_size", pairs}};
  };
  const auto sizes = read(kGood, ramp("[[1, 2], [7, 4]]")).config.training.rampup_batch_size;
  EXPECT_EQ(sizes, (std::vector<BatchSize>{{1, 2}, {7, 4}}));
  EXPECT_THAT(complaint(kGood, ramp("[1, 2]")), HasSubstr("rampup_batch_size[0] = 1: must be a"));
  EXPECT_THAT(complaint(kGood, ramp("[[1, 2], [3]]")), HasSubstr("[from_step, sequences], not 1"));
  EXPECT_THAT(complaint(kGood, ramp("[[0, 2]]")), HasSubstr("must be between 1 and"));
  EXPECT_THAT(complaint(kGood, ramp("[[1, 0]]")), HasSubstr("must be between 1 and"));
  EXPECT_THAT(complaint(kGood, ramp("64")), HasSubstr("must be a list, [[from_step"));
}

TEST(reader, samples_to_skip_are_ranges) {
  const auto skip = [](const char* ranges) { return std::vector<Override>{{"data.skip", ranges}}; };
  const auto config = read(kGood, skip("[[8, 12], [0, 1]]")).config;
  EXPECT_EQ(config.data.skip, (std::vector<data::SampleRange>{{8, 12}, {0, 1}}));
  EXPECT_THAT(complaint(kGood, skip("[8, 12]")), HasSubstr("data.skip[0] = 8: must be a range"));
  EXPECT_THAT(complaint(kGood, skip("[[1, 2], [3]]")), HasSubstr("two sample numbers"));
  EXPECT_THAT(complaint(kGood, skip("[[2, 2]]")), HasSubstr("is empty"));
  EXPECT_THAT(complaint(kGood, skip("[[-1, 2]]")), HasSubstr("must be at least 0"));
  EXPECT_THAT(complaint(kGood, skip("4")), HasSubstr("must be a list of ranges"));
}

TEST(reader, paths_are_relative_to_the_config) {
  const std::string toml = kGood +
                           "[job]\ndump_folder = \"../runs/a\"\n"
                           "[checkpoint]\nfolder = \"kept\"\n";
  const RunConfig config = read(toml, {{"data.tokenizer", "spm.model"}}).config;
  EXPECT_EQ(config.job.dump_folder, "/home/runs/a");
  EXPECT_EQ(config.data.train.front().path, "/home/me/text");
  EXPECT_EQ(config.data.tokenizer, "/home/me/spm.model");
  EXPECT_EQ(checkpoint_folder(config), "/home/runs/a/kept");
  EXPECT_EQ(read(kGood, {{"data.tokenizer", "bytes"}}).config.data.tokenizer, "bytes");
  EXPECT_EQ(read(kGood).config.job.dump_folder, "/home/me/outputs");
}

TEST(reader, overrides_win_and_take_all_that_the_file_takes) {
  const LoadedConfig loaded =
      read(kGood, {{"training.steps", "7"},
                   {"training.steps", "9"},
                   {"optimizer.lr", "1"},
                   {"job.reproducible", "true"},
                   {"job.description", "a # \"b\""},
                   {"lr_scheduler.name", "wsd"},
                   {"model.hidden_act", "gelu_new"},
                   {"checkpoint.resume", "40"},
                   {"data.train", "[{ path = \"x\", weight = 3 }, { path = '/y' }]"},
                   {"model.rope_scaling.factor", "8"},
                   {"model.rope_scaling.rope_type", "llama3"}});
  const RunConfig& config = loaded.config;
  EXPECT_EQ(config.training.steps, 9);
  EXPECT_EQ(config.optimizer.lr, 1.0);
  EXPECT_TRUE(config.job.reproducible);
  EXPECT_EQ(config.job.description, "a # \"b\"");
  EXPECT_EQ(config.lr_scheduler.name, "wsd");
  EXPECT_EQ(config.model.activation, Activation::kGeluTanh);
  EXPECT_EQ(config.checkpoint.resume, "40");
  const std::vector<DataSource> sources{{"/home/me/x", 3}, {"/y", 1}};
  EXPECT_EQ(config.data.train, sources);
  EXPECT_EQ(config.model.rope_scaling.factor, 8.0);
  EXPECT_EQ(loaded.origin("training.steps").kind, Origin::Kind::kCommandLine);
  EXPECT_EQ(loaded.origin("data.tokenizer").kind, Origin::Kind::kDefault);
  EXPECT_EQ(loaded.origin("model.hidden_size").kind, Origin::Kind::kFlavor);
  EXPECT_EQ(loaded.origin("model.flavor").line, 2u);
}

TEST(reader, a_wrong_override_is_refused_like_a_wrong_line) {
  const auto of = [](const char* key, const char* value) {
    return complaint(kGood, {{key, value}});
  };
  EXPECT_EQ(of("training.steps", "many"),
            "command line: --training.steps = \"many\": must be an integer, not text");
  EXPECT_EQ(of("training.steps", ""), "command line: --training.steps: needs a value");
  EXPECT_THAT(of("training.steps", "1\n[job]"), Not(""));
  EXPECT_THAT(of("training.steps", "1\nx = 2"), HasSubstr("more than one value"));
  EXPECT_THAT(of("data.train", "[{ path ="), HasSubstr("cannot be read"));
  EXPECT_THAT(of("job.description", "\xff"), HasSubstr("cannot be read"));
  EXPECT_THAT(of("checkpoint.resume", "-4"), HasSubstr("or a step number"));
  EXPECT_THAT(of("model.rope_scaling.factor", "8"), HasSubstr("needs rope_type"));
  EXPECT_THAT(of("model.rope_scaling.fator", "8"), HasSubstr("did you mean factor?"));
  EXPECT_THAT(of("model.rope_scaling", "{ type = \"yarn\", factor = 8 }"),
              EndsWith("unknown key; it may have \"rope_type\""));
}

TEST(reader, stages_of_the_data_are_read_as_lists_and_as_tables) {
  const std::vector<DataStage> stages{{10, {{"/home/me/b", 2}}}, {20, {{"/c", 1}, {"/d", 0.5}}}};
  const std::string tables =
      "[[data.stages]]\nfrom_step = 10\ntrain = [{ path = \"b\", weight = 2 }]\n"
      "[[data.stages]]\nfrom_step = 20\n"
      "train = [{ path = \"/c\" }, { path = \"/d\", weight = 0.5 }]\n";
  RunConfig config = read(kGood + tables).config;
  EXPECT_EQ(config.data.stages, stages);
  const std::string list = to_toml(Slot(&config.data.stages));
  EXPECT_EQ(read(kGood, {{"data.stages", list}}).config.data.stages, stages) << list;

  const auto of = [](const char* value) { return complaint(kGood, {{"data.stages", value}}); };
  EXPECT_THAT(of("3"), HasSubstr("must be a list, [{ from_step = 1000, train = [...] }, ...]"));
  EXPECT_THAT(of("[3]"), HasSubstr("data.stages[0] = 3: must be a table"));
  EXPECT_THAT(of("[{ from_step = 5 }]"), HasSubstr("data.stages[0]"));
  EXPECT_THAT(of("[{ from_step = 5 }]"), HasSubstr("it needs train, seq_len or rope_scaling"));
  EXPECT_THAT(of("[{ from_step = 5, train = [] }]"), HasSubstr("no training data"));
  EXPECT_THAT(of("[{ from_step = 1, train = [{ path = 'a' }] }]"),
              HasSubstr("data.stages[0].from_step = 1: must be between 2 and"));
  EXPECT_THAT(of("[{ from_step = 5, train = [{ path = 'a', weights = 3 }] }]"),
              HasSubstr("data.stages[0].train[0].weights = 3: unknown key; did you mean weight?"));
  EXPECT_THAT(of("[{ fromstep = 5, train = [{ path = 'a' }] }]"),
              HasSubstr("did you mean from_step?"));
}

TEST(reader, stages_may_change_sequences_and_rope_scaling_instead_of_the_data) {
  const char* const text =
      "[{ from_step = 9, seq_len = 2048, rope_scaling = { rope_type = \"yarn\", factor = 2.0, "
      "original_max_position_embeddings = 1024 } }, { from_step = 20, rope_scaling = { rope_type = "
      "\"default\" } }]";
  RunConfig config = read(kGood, {{"data.stages", text}}).config;
  const RopeScaling yarn{
      .type = RopeScaling::Type::kYarn, .factor = 2, .original_max_position_embeddings = 1024};
  const std::vector<DataStage> stages{{9, {}, 2048, yarn}, {20, {}, 0, RopeScaling()}};
  EXPECT_EQ(config.data.stages, stages);
  EXPECT_EQ(to_toml(Slot(&config.data.stages)), text);
  EXPECT_EQ(parse_stages(text), stages);
  EXPECT_EQ(parse_stages("[{ from_step = "), std::nullopt);
  EXPECT_EQ(parse_stages("[{ from_step = 9 }]"), std::nullopt);
}

TEST(reader, validation_sets_have_names_and_questions_are_paths) {
  RunConfig config =
      read(kGood, {{"data.validation", "[{ path = 'a', name = 'web' }, { path = '/b' }]"},
                   {"validation.freq", "5"},
                   {"validation.multiple_choice", "['h.jsonl', '/q/x.jsonl']"}})
          .config;
  const std::vector<DataSource> sets{{"/home/me/a", 1, "web"}, {"/b", 1}};
  EXPECT_EQ(config.data.validation, sets);
  const std::string list = to_toml(Slot(&config.data.validation));
  EXPECT_EQ(read(kGood, {{"data.validation", list}}).config.data.validation, sets) << list;
  const std::vector<std::string> files{"/home/me/h.jsonl", "/q/x.jsonl"};
  EXPECT_EQ(config.validation.multiple_choice, files);

  EXPECT_THAT(complaint(kGood, {{"data.train", "[{ path = 'a', name = 'web' }]"}}),
              HasSubstr("data.train[0].name = \"web\": unknown key"));
  EXPECT_THAT(complaint(kGood, {{"data.validation", "[{ path = 'a', name = 'a/b' }]"}}),
              HasSubstr("data.validation[0].name = \"a/b\": must be 1 to 64 letters"));
  EXPECT_THAT(complaint(kGood, {{"data.validation", "[{ path = 'a', name = 3 }]"}}),
              HasSubstr("must be text"));
  EXPECT_THAT(complaint(kGood, {{"validation.multiple_choice", "['']"}}),
              HasSubstr("must not be empty"));
}

TEST(reader, words_of_a_list_are_among_those_allowed) {
  EXPECT_THAT(complaint(kGood, {{"model.layer_types", "['full_attention', 'chunked_attention']"}}),
              HasSubstr("model.layer_types[1] = \"chunked_attention\": must be one of "
                        "\"full_attention\", \"sliding_attention\""));
}

TEST(reader, a_step_to_resume_from_may_be_an_integer) {
  EXPECT_EQ(read(kGood + "[checkpoint]\nresume = 40\n").config.checkpoint.resume, "40");
  EXPECT_THAT(complaint(kGood + "[checkpoint]\nresume = \"newest\"\n"),
              HasSubstr("must be one of \"auto\", \"none\" or a step number"));
}

}  // namespace
}  // namespace trireme
