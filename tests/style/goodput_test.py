#!/usr/bin/env python3
"""goodput_test.py REPOSITORY: the simulation of failures finds what is known in closed form."""

import importlib.machinery
import importlib.util
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(sys.argv.pop(1)) / "scripts" / "goodput"

sys.dont_write_bytecode = True
loader = importlib.machinery.SourceFileLoader("goodput", str(SCRIPT))
goodput = importlib.util.module_from_spec(importlib.util.spec_from_loader("goodput", loader))
sys.modules["goodput"] = goodput
loader.exec_module(goodput)


def mean_share(plan, kinds, mtbf, seeds=20, duration=3000, shape=1.0):
    """The mean over runs of `duration` times the mean time between failures, and its error."""
    found = [
        goodput.simulate(plan, kinds, mtbf, duration * mtbf, random.Random(seed), shape)[0]
        for seed in range(seeds)
    ]
    return statistics.mean(found), statistics.stdev(found) / seeds**0.5


def one_level(work, stall, restart):
    never_to_disk = goodput.Kind(1, restart / 4, restart * 3 / 4, 0)
    return goodput.Plan(work, 10**9, stall, 0), [never_to_disk]


class Goodput(unittest.TestCase):
    def test_one_level_is_dalys_closed_form(self):
        for work, stall, restart, mtbf in (
            (100, 5, 30, 1000),
            (20, 5, 30, 1000),
            (400, 5, 200, 1000),
            (900, 60, 400, 500),
        ):
            with self.subTest(work=work, stall=stall, restart=restart, mtbf=mtbf):
                mean, error = mean_share(*one_level(work, stall, restart), mtbf)
                expected = goodput.one_level_efficiency(work, stall, restart, mtbf)
                self.assertLess(abs(mean - expected), 4 * error + 1e-4)
                self.assertLess(error, 0.02 * expected)

    def test_the_chosen_interval_is_the_best(self):
        stall, restart, mtbf = 5, 60, 2000
        best = goodput.daly(stall, mtbf)
        of_best = goodput.one_level_efficiency(best, stall, restart, mtbf)
        for other in (best / 2, best * 0.9, best * 1.1, best * 2):
            self.assertGreater(of_best, goodput.one_level_efficiency(other, stall, restart, mtbf))
        self.assertAlmostEqual(best, goodput.young(stall, mtbf), delta=0.05 * best)

    def test_without_failures_the_stalls_alone_are_lost(self):
        plan = goodput.Plan(90, 4, 10, 20)
        share, failures = goodput.simulate(
            plan, [goodput.Kind(1, 0, 0, 0)], 1e12, 420 * 1000, random.Random(1)
        )
        self.assertEqual(failures, 0)
        self.assertAlmostEqual(share, 360 / 420, places=9)

    def test_going_back_to_disk_is_one_level_of_disk(self):
        """Where every failure loses the memory, its snapshots are as if they were not."""
        restart, mtbf = 30, 1000
        both = goodput.Plan(20, 5, 0, 5)
        always = [goodput.Kind(1, 0, restart, 1)]
        mean, error = mean_share(both, always, mtbf)
        expected = goodput.one_level_efficiency(100, 5, restart, mtbf)
        self.assertLess(abs(mean - expected), 4 * error + 1e-4)

    def test_a_checkpoint_counts_once_it_is_written(self):
        always = [goodput.Kind(1, 0, 30, 1)]
        at_once, _ = mean_share(goodput.Plan(20, 5, 0, 5), always, 1000)
        later, _ = mean_share(goodput.Plan(20, 5, 0, 5, disk_write=50), always, 1000)
        self.assertLess(later, at_once - 0.01)

    def test_times_between_failures_have_the_mean_that_is_asked_for(self):
        rng = random.Random(3)
        for shape in (0.6, 1, 2):
            times = [goodput.time_to_failure(rng, 50, shape) for _ in range(40000)]
            self.assertAlmostEqual(statistics.mean(times), 50, delta=2)

    def test_measured_costs_are_read_and_what_they_lack_is_said(self):
        def run(costs):
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(costs, file)
                file.flush()
                return subprocess.run(
                    [SCRIPT, "--costs", file.name, "--seeds", "3"],
                    capture_output=True, text=True, check=False,
                )  # fmt: skip

        dear = {"kill": {"detect": 1, "recover": 500}, "hang": {"detect": 2, "recover": 600}}
        cheap = {"kill": {"detect": 1, "recover": 3}, "hang": {"detect": 2, "recover": 5}}

        def median(result):
            return float(result.stdout.partition("median ")[2].partition(" %")[0])

        self.assertLess(median(run(dear)), median(run(cheap)) - 3)
        refused = run({"kill": {"detect": 1, "recover": 3}})
        self.assertEqual(refused.returncode, 1)
        self.assertIn("hang needs detect and recover", refused.stderr)
        stop = run({**cheap, "stop": {"detect": 2, "recover": 9}, "snapshot_stall_fraction": 0.01})
        self.assertIn(", as for stop", stop.stdout)
        self.assertIn("took 1.00 %", stop.stdout)
        self.assertIn(", as for hang", run(cheap).stdout)

    def test_more_gpus_fail_more_often(self):
        def shown(*words):
            return subprocess.run(
                [SCRIPT, "--seeds", "1", *words], capture_output=True, text=True, check=True
            ).stdout

        self.assertIn("11,135 s", shown())
        self.assertIn("5,567.5 s", shown("--gpus", "32768"))


unittest.main()
