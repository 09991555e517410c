#!/usr/bin/python3
"""A config that cannot be meant is refused whole, with every complaint and its place."""
from checks import check
from facts import fact, main
from run_folder import contents


def refused(workshop, text, *words, options=()):
    """Exit 2, one message with `words`, and nothing written."""
    (workshop / "run.toml").write_text(text)
    before = contents(workshop.folder)
    message = workshop.run("train", "run.toml", *options).refused(2, *words)
    check(contents(workshop.folder) == before, "it wrote files")
    return message


GOOD = """[job]
dump_folder = "run"
threads = 1
[model]
flavor = "tiny"
[data]
train = [{ path = "corpus" }]
[training]
seq_len = 32
steps = 4
"""


@fact
def every_wrong_key_is_named_at_once_with_its_place(workshop):
    message = refused(workshop, """[job]
treads = 1
[modle]
flavor = "tiny"
[model]
flavor = "tinny"
[data]
train = [{ path = "corpus" }]
[training]
seq_len = "32"
local_batch_size = 2
global_batch_size = 3
steps = 40
tokens = 100
dtype = "fp16"
[optimizer]
lr = -1
""", "run.toml:2:1: job.treads = 1", "did you mean job.threads?",
            "run.toml:3:2: [modle]", "did you mean [model]?",
            'run.toml:6:10: model.flavor = "tinny"', 'did you mean "tiny"?',
            'run.toml:10:11: training.seq_len = "32": must be an integer',
            "run.toml:12:21: training.global_batch_size = 3", "local_batch_size = 2",
            "run.toml:13:9: training.steps = 40: conflicts with training.tokens = 100",
            'run.toml:15:9: training.dtype = "fp16"', '"bfloat16"',
            "run.toml:17:6: optimizer.lr = -1",
            "command line: --training.stepz = 3", "did you mean --training.steps?",
            options=["--training.stepz=3"])
    check(message.startswith("9 errors in the config"), message)


@fact
def contradictory_keys_are_refused(workshop):
    for text, *words in [
            ("[optimizer]\nname = \"Adam\"\n", 'optimizer.name = "Adam"', '"AdamW"'),
            ("[optimizer]\nname = \"SGD\"\nbeta2 = 0.9\n", "optimizer.beta2: does not apply to SGD"),
            ("[parallelism]\nzero = 2\nschedule = \"ZBH1\"\n", "parallelism.zero = 2", "ZBH1"),
            ("[parallelism]\ngradient_compression = \"topk\"\ndata_shard = 1\n",
             "gradient_compression", "data_replicate > 1"),
            ("[parallelism]\nschedule = \"1f1b\"\n", 'schedule = "1f1b"', 'did you mean "1F1B"?'),
            ("[parallelism]\ntp = 2\n", "parallelism.tp", "did you mean parallelism.tensor?"),
            ("[validation]\nfreq = 2\n", "validation.freq = 2", "data.validation"),
            ("[parallelism]\ncontext = 3\n", "parallelism.context = 3", "multiple of 6 tokens"),
            ("[activation_checkpoint]\nmode = \"some\"\n", 'mode = "some"', '"selective"'),
            ("[checkpoint]\nresume = \"maybe\"\n", 'checkpoint.resume = "maybe"', "auto")]:
        refused(workshop, GOOD + text, *words)
    refused(workshop, GOOD.replace('flavor = "tiny"', 'flavor = "tiny"\nmodel_type = "gpt2"'),
            "model_type", "llama")
    refused(workshop, GOOD.replace('flavor = "tiny"', 'flavor = "tiny"\nhead_dim = 15'),
            "head_dim = 15", "even")
    refused(workshop, GOOD.replace('flavor = "tiny"',
                                   'flavor = "tiny"\nnum_key_value_heads = 3'),
            "num_key_value_heads = 3", "num_attention_heads = 4")


@fact
def a_config_that_is_not_toml_is_refused_with_the_place(workshop):
    refused(workshop, "[job\ndump_folder = 1\n", "run.toml:1:5")
    refused(workshop, GOOD + "[job]\nseed = 1\n", "run.toml:11", "job")
    refused(workshop, "\x00\xff\x01", "run.toml")


@fact
def a_missing_config_and_unknown_words_are_refused(workshop):
    workshop.run("train", "absent.toml").refused(2, "absent.toml", "No such file")
    workshop.run("train").refused(2, "CONFIG")
    (workshop / "run.toml").write_text(GOOD)
    workshop.run("trian", "run.toml").refused(2, "trian", "did you mean train?")
    workshop.run("train", "run.toml", "--treads=1").refused(2, "--treads")
    workshop.run("eval", "run", "--training.steps=3").refused(2, "--training.steps")


@fact
def a_model_larger_than_the_machine_is_refused_before_anything_is_taken(workshop):
    workshop.corpus()
    (workshop / "run.toml").write_text(GOOD)
    for flavor, need in ("llama3-405b", 6000), ("llama3-70b", 1000):
        message = workshop.run("train", "run.toml", f"--model.flavor={flavor}").refused(
            5, "iB of memory", "are available", "a smaller model")
        number, unit = message.split("needs ")[1].split()[:2]
        check(float(number) * {"GiB": 1, "TiB": 1024}[unit] > need, message)
        check(not (workshop / "run").exists(), "it made the run folder")


@fact
def changes_that_would_make_a_run_fit_are_named(workshop):
    workshop.corpus()
    (workshop / "run.toml").write_text(GOOD)
    message = workshop.run("train", "run.toml", "--training.local_batch_size=1048576",
                           "--training.seq_len=512").refused(
                               5, "iB of memory", "are available")
    proposals = message.splitlines()[1:]
    check(1 <= len(proposals) <= 3, proposals)
    for proposal in proposals:
        check("training.local_batch_size = " in proposal and " would need " in proposal, proposal)


@fact
def looking_at_a_run_needs_no_data_and_says_what_may_not_be_meant(workshop):
    (workshop / "run.toml").write_text(GOOD.replace("[data]\ntrain = [{ path = \"corpus\" }]\n", ""))
    workshop.run("train", "run.toml").refused(2, "data.train", "no training data")
    workshop.run("plan", "run.toml").done()
    workshop.run("config", "show", "run.toml", "--parallelism.schedule=1f1b").refused(
        2, 'did you mean "1F1B"?')
    shown = workshop.run("config", "show", "run.toml", "--lr_scheduler.warmup_steps=5",
                         "--model.max_position_embeddings=16")
    shown.done()
    check("lr_scheduler.warmup_steps = 5 is longer than the run of 4 steps" in shown.err, shown.err)
    check("model.max_position_embeddings = 16 is below training.seq_len = 32" in shown.err, shown.err)


@fact
def a_warmup_longer_than_the_run_is_noted_and_the_run_is_made(workshop):
    workshop.corpus()
    (workshop / "run.toml").write_text(GOOD)
    run = workshop.run("train", "run.toml", "--lr_scheduler.warmup_steps=5")
    run.done()
    check("warmup_steps = 5 is longer than the run of 4 steps" in run.out + run.err, run)


@fact
def paths_begin_at_home_and_a_url_is_refused_with_its_key(workshop):
    workshop.corpus()
    for key in ("job.dump_folder", "checkpoint.folder", "checkpoint.initial_load_path",
                "data.tokenizer", "elastic.memory_folder"):
        refused(workshop, GOOD, f'command line: --{key} = "s3://bucket/run"', "s3:// is not supported",
                options=[f"--{key}=s3://bucket/run"])
    refused(workshop, GOOD.replace('"corpus"', '"gs://bucket/corpus"'), "data.train[0].path",
            "gs:// is not supported")
    refused(workshop, GOOD, "--job.dump_folder", "only $HOME is expanded",
            options=["--job.dump_folder=$SCRATCH/run"])
    home = workshop / "home"
    home.mkdir()
    (workshop / "run.toml").write_text(GOOD)
    for start in ("~", "$HOME", "${HOME}"):
        name = f"run{len(start)}"
        workshop.run("train", "run.toml", f"--job.dump_folder={start}/{name}",
                     env={"HOME": str(home)}).done()
        check((home / name / "config.toml").exists(), start, "was not expanded")
        check(not (workshop / start).exists(), "a folder named", start, "was made")


@fact
def a_foreign_config_that_cannot_be_said_is_refused_with_all_of_its_keys(workshop):
    (workshop / "pretrain.sh").write_text(
        "pretrain_gpt.py --num-layers 2 --num-experts 8 --lr-warmup-samples 64000 "
        "--rampup-batch-size 4 4 90 --global-batch-size 16 --attention-dropout 0 "
        "--hidden-dropout 0 --log-throughput\n")
    before = contents(workshop.folder)
    message = workshop.run("import-config", "pretrain.sh", "-o", "ours.toml").refused(
        2, "pretrain.sh: 2 of its keys", "num-experts = 8 (this mixture-of-experts setting is not supported yet)",
        "lr-warmup-samples = 64000", "--leave-out KEY")
    check("log-throughput" not in message, message)
    check(contents(workshop.folder) == before, "it wrote files")
    workshop.run("import-config", "pretrain.sh", "-o", "ours.toml", "--leave-out=num-experts",
                 "--leave-out=lr-warmup-samples").done()
    check("ignored by --leave-out: this mixture-of-experts setting" in (workshop / "ours.toml").read_text())
    (workshop / "config_registry.py").write_text("def llama3_8b():\n    return Trainer.Config()\n")
    workshop.run("import-config", "config_registry.py").refused(2, "config_registry", "as TOML")


if __name__ == "__main__":
    main()
