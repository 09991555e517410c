#!/usr/bin/env python3
"""layering_test.py REPOSITORY: the check of the layering finds what it should and no more."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

CHECK = pathlib.Path(sys.argv.pop(1)) / "scripts" / "check_layering.py"

ALLOWED = {
    "model/ops/norm.h": '#include "model/tensor/tensor.h"\n#include <vector>\n',
    "model/ops/norm.cpp": '#include "model/ops/cpu/norm.h"\n',
    "model/ops/cpu/simd/vec.h": "#include <hwy/highway.h>\n",
    "model/ops/cpu/gemm.cpp": "#include <cblas.h>\n#include <dnnl.hpp>\n",
    "parallel/data/buckets.cpp": '#include "parallel/comm/communicator.h"\n',
    "parallel/comm/mpi.cpp": "#include <mpi.h>\n",
    "checkpoint/hdf5/file.cpp": '#include <hdf5.h>\n#include "checkpoint/format/names.h"\n',
    "trainer/loop/loop.cpp": '#include "trainer/config/config.h"\n#include "data/source.h"\n',
    "trainer/main.cpp": '#include "trainer/commands/command.h"\n',
    "tests/data/data_test.cpp": '#include <gtest/gtest.h>\n#include "data/source.h"\n',
}  # fmt: skip
FORBIDDEN = {
    "upwards": ("model/layers/linear.cpp", '#include "model/stage/stage.h"'),
    "model to parallel": ("model/stage/stage.h", '#include "parallel/comm/communicator.h"'),
    "between parallelisms": ("parallel/pipeline/run.cpp", '#include "parallel/data/buckets.h"'),
    "data to tensor": ("data/source.h", '#include "model/tensor/tensor.h"'),
    "checkpoint to trainer": ("checkpoint/store/store.h", '#include "trainer/config/config.h"'),
    "between the checkpoint's rooms": (
        "checkpoint/read/load.h", '#include "checkpoint/write/shard_writer.h"'),
    "between the trainer's rooms": (
        "trainer/tools/audit/audit.cpp", '#include "trainer/loop/trainer.h"'),
    "trainer upwards": ("trainer/config/config.h", '#include "trainer/loop/loop.h"'),
    "device from a header": ("model/ops/norm.h", '#include "model/ops/cpu/norm.h"'),
    "layer to device": ("model/layers/norm.cpp", '#include "model/ops/cpu/norm.h"'),
    "production to test": ("trainer/main.cpp", '#include "tests/data/helper.h"'),
    "without its room": ("model/ops/norm.cpp", '#include "norm.h"'),
    "mpi": ("parallel/data/buckets.cpp", "#include <mpi.h>"),
    "mpi in a test": ("tests/data/data_test.cpp", "#include <mpi.h>"),
    "hdf5": ("trainer/loop/loop.cpp", "#  include <hdf5.h>"),
    "toml": ("data/blend.cpp", "#include <toml++/toml.h>"),
    "cblas": ("model/layers/linear.cpp", "#include <cblas.h>"),
    "onednn": ("model/ops/gemm.cpp", "#include <dnnl.hpp>"),
    "highway": ("model/ops/norm.cpp", "#include <hwy/highway.h>"),
    "sentencepiece": ("trainer/commands/go.cpp", "#include <sentencepiece_processor.h>"),
    "isa-l": ("data/sum.cpp", "#include <isa-l/crc.h>"),
    "gtest": ("model/base/file.cpp", "#include <gtest/gtest.h>"),
    "in no listed folder": ("model/helpers/all.h", "#include <vector>"),
}


def check(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            file = pathlib.Path(root, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        done = subprocess.run([CHECK, root], capture_output=True, text=True)
        return done.returncode, done.stdout


class Layering(unittest.TestCase):
    def test_a_sound_house_passes_in_silence(self):
        self.assertEqual(check(ALLOWED), (0, ""))

    def test_every_planted_violation_fails_and_is_named(self):
        for what, (path, line) in FORBIDDEN.items():
            with self.subTest(what):
                code, printed = check({**ALLOWED, path: line + "\n"})
                self.assertEqual(code, 1)
                self.assertEqual(len(printed.splitlines()), 1, printed)
                self.assertIn(path, printed)


if __name__ == "__main__":
    unittest.main()
