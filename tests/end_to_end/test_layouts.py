#!/usr/bin/python3
"""One run over many ranks: started by mpirun, resumed in other layouts, stopped, refused."""
import os
import signal

from checks import check, note
from commands import Process, has_pending
from facts import fact, main
from flight_recorder import held_rank
from run_folder import curve, events, metrics, same_checkpoint, same_curve, steps_done
from workshop import MPI, inject_fault

MODEL = {"model": {"flavor": "tiny", "num_hidden_layers": 4},
         "training": {"seq_len": 32, "local_batch_size": 1, "global_batch_size": 4, "steps": 20}}


def relative(one, other):
    return max(abs(float(a["loss"]) - float(b["loss"])) / float(b["loss"])
               for a, b in zip(metrics(one), metrics(other)))


@fact
def a_pipeline_is_the_run_of_one_rank_bit_for_bit(workshop):
    workshop.corpus()
    workshop.run("train", workshop.config("alone", MODEL)).done()
    for ranks, *options in [(2, "--parallelism.pipeline=2"),
                            (2, "--parallelism.pipeline=2", "--parallelism.virtual_stages=2",
                             "--parallelism.schedule=Interleaved1F1B"),
                            (4, "--parallelism.pipeline=4", "--parallelism.schedule=ZBH1")]:
        name = f"run{len(options)}{ranks}"
        workshop.run_ranks(ranks, "train", workshop.config(name, MODEL), *options).done()
        same_curve(workshop / name, curve(workshop / "alone"))
        same_checkpoint(workshop, name, "alone")


@fact
def a_run_goes_on_in_another_layout(workshop):
    """Pipeline, then tensor and pipeline, then one rank alone."""
    workshop.corpus()
    workshop.run("train", workshop.config("alone", MODEL)).done()
    config, folder = workshop.config("run", MODEL), workshop / "run"
    for steps, ranks, *options in [
            (5, 2, "--parallelism.pipeline=2"),
            (10, 4, "--parallelism.pipeline=2", "--parallelism.tensor=2",
             "--parallelism.sequence=true", "--parallelism.layers_per_stage=[3, 1]"),
            (15, 2, "--parallelism.tensor=2")]:
        token = workshop / f"held-{steps}"
        with Process(workshop.launch(ranks, "train", config, *options), workshop.folder,
                     {**workshop.env, **MPI, **inject_fault("stop", steps, once=token)}) as process:
            check(process.wait_for(lambda token=token: held_rank(folder, token), f"step {steps}"),
                  process.text())
            rank = held_rank(folder, token)
            process.send(signal.SIGUSR1)  # mpirun passes it on
            check(process.wait_for(lambda rank=rank: has_pending(rank, signal.SIGUSR1), "SIGUSR1"),
                  process.text())
            os.kill(rank, signal.SIGCONT)
            code = process.wait().code
            check(code == 75, f"exit {code}:", process.text())
            check(steps_done(folder) == steps, steps_done(folder), "steps")
    workshop.run("train", config).done()
    note(f"losses within {relative(folder, workshop / 'alone'):.1e} of one rank's")
    check(relative(folder, workshop / "alone") < 1e-6, "the loss curve is another")
    check([line["step"] for line in metrics(folder)] == [str(i + 1) for i in range(20)],
          "a step is missing or doubled")
    check(len(events(folder, "resume")) == 3, events(folder))


@fact
def ranks_that_are_not_the_product_of_the_axes_are_refused_once(workshop):
    workshop.corpus()
    config = workshop.config("run", MODEL)
    workshop.run_ranks(2, "train", config, "--parallelism.data_shard=1").refused(
        2, "2 were launched", "parallelism")
    workshop.run_ranks(3, "train", config, "--parallelism.pipeline=2").refused(
        2, "3 were launched", "parallelism.pipeline = 3")
    workshop.run_ranks(3, "train", config, "--parallelism.tensor=3").refused(
        2, "parallelism.tensor = 3", "num_attention_heads", "possible near 3: 2, 4")
    workshop.run_ranks(3, "train", config).refused(
        2, "training.global_batch_size = 4", "3 data ranks", "possible near 4: 3, 6")
    check(not os.path.exists(workshop / "run"), "it made the run folder")
    workshop.run_ranks(2, "train", config, "--parallelism.pipeline=2",
                       "--parallelism.layers_per_stage=[1, 2]").refused(
        2, "parallelism.layers_per_stage adds up to 3", "model.num_hidden_layers is 4")


if __name__ == "__main__":
    main()
