"""Prints "tag step value time" for every scalar that TensorBoard finds in a directory."""

import sys

try:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
except ImportError:
    print("no tensorboard")
    sys.exit()

events = EventAccumulator(sys.argv[1])
events.Reload()
for tag in sorted(events.Tags()["scalars"]):
    for event in events.Scalars(tag):
        print(f"{tag} {event.step} {event.value:g} {event.wall_time!r}")
