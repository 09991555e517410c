"""Reads TensorBoard event files from the format's description alone and checks the run
that tensorboard_test.cpp wrote."""
import math
import pathlib
import struct
import sys


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    at = 0
    while at < len(data):
        header = data[at:at + 8]
        (length,) = struct.unpack("<Q", header)
        (check,) = struct.unpack("<I", data[at + 8:at + 12])
        assert check == masked(header), "length checksum"
        body = data[at + 12:at + 12 + length]
        assert len(body) == length, "torn record"
        (check,) = struct.unpack("<I", data[at + 12 + length:at + 16 + length])
        assert check == masked(body), "body checksum"
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = varint(data, at)
        elif wire == 1:
            (value,), at = struct.unpack("<d", data[at:at + 8]), at + 8
        elif wire == 5:
            (value,), at = struct.unpack("<f", data[at:at + 4]), at + 4
        else:
            assert wire == 2, wire
            length, at = varint(data, at)
            value, at = data[at:at + length], at + length
            assert len(value) == length
        yield number, value


def events(path):
    for body in records(path.read_bytes()):
        event = dict(fields(body))
        assert event[1] > 1.6e9, "wall time"
        scalars = {}
        for number, value in fields(event.get(5, b"")):
            assert number == 1
            one = dict(fields(value))
            scalars[one[1].decode()] = one[2]
        yield event, scalars


files = sorted(pathlib.Path(sys.argv[1]).iterdir())
assert len(files) == 2, files
assert all(file.name.startswith("events.out.tfevents.") for file in files), files
first, second = (list(events(file)) for file in files)
for run in (first, second):
    assert run[0][0][3] == b"brain.Event:2", run[0]
# A restart after step 3: SessionLog.START at step 4.
assert second[1][0][2] == 4 and dict(fields(second[1][0][7])) == {1: 1}, second[1]
assert all(7 not in event for event, _ in first)

seen = [(event[2], scalars) for event, scalars in first[1:]]
assert [step for step, _ in seen] == [1, 2, 3, 4, 5]
resumed = [(event[2], scalars) for event, scalars in second[2:]]
assert [step for step, _ in resumed] == [4, 5, 6, 300]
for start, run in ((10, seen), (20, resumed)):
    for step, scalars in run:
        assert scalars["loss/train"] == start - step
        assert ("loss/validation" in scalars) == (step % 2 == 0)
        if step % 2 == 0:
            assert scalars["loss/validation"] == start - step + 1
        norm = scalars["optimizer/grad_norm"]
        assert math.isinf(norm) if step == 2 else norm == 0.5
        assert scalars["speed/mfu_percent"] == 25
        assert "speed/hfu_percent" not in scalars  # not known
        assert scalars["memory/peak_gib"] == 3
        assert scalars["progress/tokens"] == 300 * step
        assert scalars["more/aux_loss"] == 0.125
        assert scalars["accuracy/quiz"] == 0.25
        assert scalars["validation_loss/web"] == 2.5
        assert scalars["validation_bits_per_byte/web"] == 1.5
print("events of", len(seen) + len(resumed), "steps read")
