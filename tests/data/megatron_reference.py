#!/usr/bin/python3
"""Megatron-LM's document, sample, shuffle and blend indices by its published rules, in NumPy.

megatron_reference.py          prints tests/data/megatron_table.h
megatron_reference.py --check  fails when that file is another; exit code 77: no NumPy

The rules are those of megatron/core/datasets: gpt_dataset.py, helpers.cpp, blended_*.py.
"""
import math
import pathlib
import sys

try:
    import numpy as np
except ImportError:
    print("skipped: python3-numpy is not installed")
    sys.exit(77)

SEEDS = (1234, 7, 4294967295)
SEQ_LEN = 32
SURPLUS = 0.005


def sizes_of(which, documents):
    """Lengths that a test can make up again: a congruential generator of its own."""
    state, sizes = 12345 + which, []
    for _ in range(documents):
        state = (state * 1103515245 + 12345) % 2**31
        sizes.append(1 + state // 65536 % 90)
    return np.array(sizes, np.int32)


def gpt_indices(sizes, samples, seed):
    """document_index, sample_index, shuffle_index of one dataset."""
    epoch = int(sizes.sum())
    epochs, tokens = 1, epoch
    while tokens < samples * SEQ_LEN + 1:
        epochs += 1
        tokens += epoch
    separate = False
    if epochs > 1:
        sans_last = ((epochs - 1) * epoch - 1) // SEQ_LEN
        separate = samples - sans_last < int(0.80 * ((epoch - 1) // SEQ_LEN))
    random = np.random.RandomState(seed)

    def documents(number):
        index = np.tile(np.arange(len(sizes)), number).astype(np.int32)
        random.shuffle(index)
        return index

    document = (np.concatenate([documents(epochs - 1), documents(1)]) if separate
                else documents(epochs))
    # A sample begins at every SEQ_LEN-th token of the documents laid end to end, in the document
    # that holds it; a sample's last token, which is the next one's first, belongs to it.
    ends = np.cumsum(sizes[document].astype(np.int64))
    firsts = np.arange((epochs * epoch - 1) // SEQ_LEN + 1) * SEQ_LEN
    at = np.searchsorted(ends, firsts, side="right")
    sample = np.stack([at, firsts - (ends[at] - sizes[document[at]])], 1).astype(np.int32)

    def range_of(first, last):
        index = np.arange(first, last, dtype=np.uint32)
        random.shuffle(index)
        return index

    number = len(sample) - 1
    shuffle = (np.concatenate([range_of(0, sans_last), range_of(sans_last, number)]) if separate
               else range_of(0, number))
    return document, sample, shuffle, separate


def normalized(weights):
    weights = np.array(weights, np.float64)
    return weights / np.sum(weights)


def blend_indices(weights, samples):
    """dataset_index, dataset_sample_index, and how many samples to build of each dataset."""
    once = normalized(weights)
    targets = [math.ceil(samples * share) for share in once.tolist()]
    built = [int(math.ceil(target * (1 + SURPLUS))) for target in targets]
    shares = normalized(once)
    counts = np.zeros(len(shares), np.int64)
    dataset, index = [], []
    for sample in range(sum(targets)):
        most = int(np.argmax(shares * max(sample, 1.0) - counts))  # the first of several
        dataset.append(most)
        index.append(counts[most])
        counts[most] += 1
    return np.array(dataset, np.int16), np.array(index, np.int64), built


def digest(values):
    """FNV-1a over whole numbers."""
    state = 0xcbf29ce484222325
    for value in np.asarray(values).reshape(-1).tolist():
        state = (state ^ value) * 0x100000001b3 % 2**64
    return f"0x{state:016x}"


def indices_row(which, documents, share, seed):
    sizes = sizes_of(which, documents)
    epoch = (int(sizes.sum()) - 1) // SEQ_LEN
    samples = math.ceil(share * epoch)
    document, sample, shuffle, separate = gpt_indices(sizes, samples, seed)
    return (f"    {{{which}, {documents}, {samples}u, {seed}u, {len(document)}u, {len(shuffle)}u, "
            f"{'true' if separate else 'false'},\n     {digest(document)}, {digest(sample)}, "
            f"{digest(shuffle)}}},\n")


def blend_row(weights, samples):
    dataset, index, built = blend_indices(weights, samples)
    listed = ", ".join(repr(float(weight)) for weight in weights)
    counts = ", ".join(f"{count}u" for count in built)
    return (f"    {{{{{listed}}}, {samples}u, {len(dataset)}u, {digest(dataset)},\n"
            f"     {digest(index)}, {{{counts}}}}},\n")


def table():
    text = ("#pragma once\n// What tests/data/megatron_reference.py prints: NumPy's indices, as "
            "digests.\n// clang-format off\n#include <cstdint>\n#include <vector>\n\n"
            "namespace trireme::data {\n\n"
            "struct IndicesRow {\n  int which, documents;\n  std::uint64_t samples;\n"
            "  std::uint32_t seed;\n  std::uint64_t entries, built;\n  bool separate;\n"
            "  std::uint64_t document, sample, shuffle;\n};\n"
            "inline const std::vector<IndicesRow> kIndices{\n")
    for seed in SEEDS:
        for which, documents, share in ((0, 300, 1), (0, 300, 2.3), (1, 300, 2.9), (2, 1, 1.5),
                                        (0, 300, 0.01)):
            text += indices_row(which, documents, share, seed)
    text += ("};\n\nstruct BlendRow {\n  std::vector<double> weights;\n  std::uint64_t samples, size"
             ";\n  std::uint64_t dataset, index;\n  std::vector<std::uint64_t> built;\n};\n"
             "inline const std::vector<BlendRow> kBlends{\n")
    many = [1 / (3 + i) for i in range(11)]
    for weights, samples in (([0.3, 0.7], 1000), ([3, 7], 777), ([1, 1, 1], 500), (many, 600),
                             ([0.001 + i % 7 for i in range(140)], 300)):
        text += blend_row(weights, samples)
    return text + "};\n\n}  // namespace trireme::data\n"


def main():
    if sys.argv[1:] == ["--check"]:
        known = pathlib.Path(__file__).with_name("megatron_table.h").read_text()
        sys.exit(0 if known == table() else "megatron_table.h is not what NumPy gives")
    sys.stdout.write(table())


main()
