"""Loads the run that tensorboard_test.cpp wrote with TensorBoard's own reader, the one installed or
else that of build/pypi, where scripts/setup test puts it."""
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[3] / "build/pypi"))
try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    sys.exit(77)

accumulator = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
accumulator.Reload()
loss = [(event.step, event.value) for event in accumulator.Scalars("loss/train")]
# Steps 4 and 5 of the first file are forgotten.
assert loss == [(1, 9), (2, 8), (3, 7), (4, 16), (5, 15), (6, 14), (300, -280)], loss
print("TensorBoard shows", loss)
