"""Replay buffers and returns beside those of other frameworks: speed, growth, memory.

python -m benchmarks.buffers            # writes benchmarks/results/buffers.* and a picture
python -m benchmarks.buffers --quick    # short rounds, smaller buffers; prints only

P9 is a prioritized cycle: draw 256 samples with their weights, then set their priorities. The
samples are those of CartPole: two observations of 4 float32, action, reward, done. P6 and P8 draw
256 and push 64 of them, P7 draws stacks of images, P10 and P11 are advantages and n-step returns.
DI-engine cannot be installed from PyPI alone, so `Python tree` is a binary sum tree and a list of
dicts in Python, as in its documents. Memory is what a process grows by while it fills a buffer.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import buffer as uniform
from benchmarks import functions, images, measure
from benchmarks.buffer import rows
from benchmarks.measure import at_most, commit, contest, emit, machine, missing
from dicore.data import Batch
from dicore_plugins.buffers import (
    AdvancedReplayBuffer,
    NaiveReplayBuffer,
    SequenceReplayBuffer,
)

RESULTS = Path(__file__).parent / "results"
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "buffers.svg"
BATCH = 256
CAPACITIES = (10_000, 100_000, 1_000_000, 10_000_000)
MONITOR = {"sampled_data_attr": {"print_freq": 0}, "periodic_thruput": {"seconds": None}}
CLOCK = time.process_time
DRAWN = {
    "P6": "draw 256 of 100k samples",
    "P7": "draw 256 stacks of 4 images",
    "P8": "push 64 samples",
    "P9 100k NumPy": "prioritized cycle, 100k samples, without numba",
    "P9 1000k NumPy": "prioritized cycle, 1M samples, without numba",
    "P9 100k": "prioritized cycle, 100k samples",
    "P9 1000k": "prioritized cycle, 1M samples",
    "sequences": "draw 64 sequences of 20 steps",
    "P10 GAE 128x8": "GAE of 128 steps, 8 environments",
    "P10 GAE 2048x64": "GAE of 2048 steps, 64 environments",
    "P11 5-step 128x8": "5-step returns of 128 steps, 8 environments",
    "P11 5-step 2048x64": "5-step returns of 2048 steps, 64 environments",
    "P18": "memory of samples (less is better)",
    "P21": "memory of stacked images (less is better)",
}
"""Figures of the picture, with their titles."""
OURS, OTHERS = "#0072b2", "#999999"


def priorities() -> list[Any]:
    rng = np.random.default_rng(1)
    return [rng.random(BATCH).astype(np.float32) for _ in range(64)]


def filled(capacity: int, kernels: str) -> AdvancedReplayBuffer:
    cfg = {"replay_buffer_size": capacity, "kernels": kernels, "monitor": MONITOR}
    buffer = AdvancedReplayBuffer(cfg, rng=np.random.default_rng(0))
    few = Batch(rows(10_000))
    for _ in range(capacity // 10_000):
        buffer.push(few)
    everything = np.arange(capacity)
    weights = np.random.default_rng(2).random(capacity)
    buffer.update({"replay_buffer_idx": everything, "priority": weights})
    return buffer


def dicore_cycle(buffer: AdvancedReplayBuffer) -> Callable[[], object]:
    given, number = priorities(), 0

    def cycle() -> None:
        nonlocal number
        number += 1
        batch: Any = buffer.sample_batch(BATCH, number, reuse=True)
        info = {"replay_unique_id": batch["replay_unique_id"], "priority": given[number % 64]}
        buffer.update(info)

    return cycle


def tianshou_cycle(capacity: int) -> Callable[[], object]:
    from tianshou.data import Batch as Theirs
    from tianshou.data import PrioritizedReplayBuffer

    buffer = PrioritizedReplayBuffer(capacity, alpha=0.6, beta=0.4)
    columns = rows(capacity)
    done = columns["done"] > 0
    buffer.set_batch(
        Theirs(
            obs=columns["obs"], act=columns["action"], rew=columns["reward"], terminated=done,
            truncated=np.zeros_like(done), done=done, obs_next=columns["next_obs"],
        )
    )  # fmt: skip
    buffer._size = capacity  # noqa: SLF001 - as `ReplayBuffer.from_data` does
    buffer.init_weight(np.arange(capacity))
    buffer.update_weight(np.arange(capacity), np.random.default_rng(2).random(capacity))
    given, number = priorities(), 0

    def cycle() -> None:
        nonlocal number
        number += 1
        _, index = buffer.sample(BATCH)
        buffer.update_weight(index, given[number % 64])

    return cycle


class PythonTree:
    """A binary sum tree and a list of dicts, in Python."""

    def __init__(self, capacity: int) -> None:
        self.size = 1 << (capacity - 1).bit_length()
        self.tree = [0.0] * (2 * self.size)
        columns = rows(capacity)
        self.rows = [
            dict(zip(columns, each, strict=True)) for each in zip(*columns.values(), strict=True)
        ]
        weights = np.random.default_rng(2).random(capacity).tolist()
        self.tree[self.size : self.size + capacity] = weights
        for node in range(self.size - 1, 0, -1):
            self.tree[node] = self.tree[2 * node] + self.tree[2 * node + 1]

    def set(self, slot: int, weight: float) -> None:
        node = slot + self.size
        self.tree[node] = weight
        while node > 1:
            node >>= 1
            self.tree[node] = self.tree[2 * node] + self.tree[2 * node + 1]

    def find(self, point: float) -> int:
        node = 1
        while node < self.size:
            node *= 2
            if point >= self.tree[node]:
                point -= self.tree[node]
                node += 1
        return node - self.size


def python_cycle(capacity: int) -> Callable[[], object]:
    tree, given, number = PythonTree(capacity), priorities(), 0

    def cycle() -> None:
        nonlocal number
        number += 1
        part = tree.tree[1] / BATCH
        slots = [tree.find((i + random.random()) * part) for i in range(BATCH)]  # noqa: S311
        lowest = min(tree.tree[tree.size + slot] for slot in slots)
        weights = [(tree.tree[tree.size + slot] / lowest) ** -0.4 for slot in slots]
        samples = [tree.rows[slot] for slot in slots]
        batch = {key: np.stack([row[key] for row in samples]) for key in samples[0]}
        batch["IS"] = np.array(weights, np.float32)
        for slot, priority in zip(slots, given[number % 64].tolist(), strict=True):
            tree.set(slot, (priority + 1e-5) ** 0.6)

    return cycle


def prioritized(*, quick: bool) -> None:
    for capacity, target in ((100_000, 2.2), (1_000_000, 1.8)):
        if quick and capacity > 100_000:
            continue
        label = f"P9 {capacity // 1000}k"
        contenders = {"dicore": dicore_cycle(filled(capacity, "numba"))}
        try:
            contenders["tianshou"] = tianshou_cycle(capacity)
        except ImportError:
            missing("P9", "tianshou")
        contest(label, contenders, 1, "cycles/s", against={"tianshou": target}, clock=CLOCK)
        plain = {
            "dicore": dicore_cycle(filled(capacity, "numpy")),
            "Python tree": python_cycle(capacity),
        }
        contest(f"{label} NumPy", plain, 1, "cycles/s", against={"Python tree": 10.0}, clock=CLOCK)


def sequences(*, quick: bool) -> None:
    """Draws 64 windows of 20 steps, each within an episode of 200: observations and rewards.

    tianshou stacks the last 20 observations at each drawn index; before the start of an episode it
    repeats the first one.
    """
    capacity, length = (20_000 if quick else 100_000), 20
    columns = rows(capacity)
    end = np.arange(capacity) % 200 == 199
    cfg = {"replay_buffer_size": capacity, "unroll_len": length, "stride": 1}
    buffer = SequenceReplayBuffer(cfg, rng=np.random.default_rng(0))
    steps = {key: columns[key] for key in ("obs", "reward")}
    buffer.push(Batch({**steps, "end": end, "env_id": np.zeros(capacity, np.int64)}))
    contenders: dict[str, Any] = {"dicore": lambda: buffer.sample_batch(64, reuse=True)}
    try:
        from tianshou.data import Batch as Theirs
        from tianshou.data import ReplayBuffer
    except ImportError:
        missing("sequences", "tianshou")
    else:
        theirs = ReplayBuffer(capacity, stack_num=length, ignore_obs_next=True)
        zero = np.zeros(capacity, np.bool_)
        theirs.set_batch(
            Theirs(obs=columns["obs"], act=columns["action"], rew=columns["reward"],
                   terminated=end, truncated=zero, done=end)
        )  # fmt: skip
        theirs._size = capacity  # noqa: SLF001 - as `ReplayBuffer.from_data` does

        def stacked() -> None:
            index = theirs.sample_indices(64)
            theirs.get(index, "obs")
            theirs.get(index, "rew")

        contenders["tianshou"] = stacked
    contest("sequences", contenders, 1, "batches/s", against={"tianshou": 1.0}, clock=CLOCK)


def growth(*, quick: bool) -> None:
    """How the time of a draw grows with the capacity: uniform, and with a prioritized cycle."""
    capacities = CAPACITIES[:2] if quick else CAPACITIES
    times: dict[str, list[float]] = {"uniform draw": [], "prioritized cycle": []}
    for capacity in capacities:
        naive = NaiveReplayBuffer({"replay_buffer_size": capacity}, rng=np.random.default_rng(0))
        few = Batch(rows(10_000))
        for _ in range(capacity // 10_000):
            naive.push(few)
        draw = {"draw": lambda each=naive: each.sample_batch(BATCH, reuse=True)}
        rates = contest(
            f"uniform draw {capacity}", draw, 1, "batches/s", against={}, ours="draw", clock=CLOCK
        )
        times["uniform draw"].append(1e6 / float(np.median(rates["draw"])))
        del naive, draw
        cycle = {"cycle": dicore_cycle(filled(capacity, "numba"))}
        rates = contest(
            f"prioritized cycle {capacity}",
            cycle,
            1,
            "cycles/s",
            against={},
            ours="cycle",
            clock=CLOCK,
        )
        times["prioritized cycle"].append(1e6 / float(np.median(rates["cycle"])))
    digits = np.log10(capacities[-1]) / np.log10(capacities[0])
    for name, found in times.items():
        emit(f"growth {name}", [found[-1] / found[0]], "x", times_us=found, digits=digits)


FILL = """
import sys
import numpy as np
from pathlib import Path
from benchmarks.buffer import rows

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

which, capacity = sys.argv[1], int(sys.argv[2])
SHAPE = (4, 84, 84)

def rows_dicore():
    from dicore.data import Batch
    from dicore_plugins.buffers import NaiveReplayBuffer
    buffer = NaiveReplayBuffer({"replay_buffer_size": capacity})
    columns = rows(1000)
    buffer.push(Batch(columns))
    return lambda: buffer.push(Batch(columns)), 1000, buffer

def rows_list():
    columns, kept = rows(1000), []
    def push():
        kept.extend({key: each[i].copy() for key, each in columns.items()} for i in range(1000))
    return push, 1000, kept

def images_dicore():
    from dicore.data import Batch
    from dicore_plugins.buffers import NaiveReplayBuffer
    from dicore_plugins.frames import FrameWriter, StackedFrames
    buffer = NaiveReplayBuffer({"replay_buffer_size": capacity})
    writer, numbers, chunks = FrameWriter((84, 84), np.uint8), [], []
    frame = np.zeros((84, 84), np.uint8)
    def push():
        while len(numbers) < 105:
            row = writer.next_row()
            writer.chunk.frames[row] = frame
            numbers.append(writer.done())
            chunks.append(writer.chunk)
        table = np.array(numbers)
        stack = table[np.arange(100)[:, None] + np.arange(4)]
        known = tuple({id(each): each for each in chunks}.values())
        buffer.push(Batch({"obs": StackedFrames(stack, known),
                           "next_obs": StackedFrames(stack + 1, known),
                           "action": np.zeros(100, np.int64)}, 100))
        del numbers[:100], chunks[:100]
    return push, 100, buffer

def images_sb3(optimize):
    from gymnasium import spaces
    from stable_baselines3.common.buffers import ReplayBuffer
    box = spaces.Box(0, 255, SHAPE, np.uint8)
    buffer = ReplayBuffer(capacity, box, spaces.Discrete(4), device="cpu",
                          optimize_memory_usage=optimize, handle_timeout_termination=False)
    obs = np.zeros((1, *SHAPE), np.uint8)
    def push():
        for _ in range(100):
            buffer.add(obs, obs, np.zeros(1), np.zeros(1), np.zeros(1), [{}])
    return push, 100, buffer

makers = {"rows dicore": rows_dicore, "rows list of dicts": rows_list,
          "images dicore": images_dicore, "images SB3": lambda: images_sb3(False),
          "images SB3 optimized": lambda: images_sb3(True)}
warm = makers[which]
small, capacity = capacity, 2000
push, count, kept = warm()  # code that it loads is not the buffer's
for _ in range(3000 // count):
    push()
del push, kept
capacity = small
before = resident()
push, count, kept = warm()
for _ in range(capacity // count + 1):
    push()
print(resident() - before)
"""


def memory(*, quick: bool) -> None:
    """P18 and P21: bytes that a full buffer takes, as a multiple of what has to be stored."""
    row = sum(column.nbytes for column in rows(1).values())
    count = 100_000 if quick else 1_000_000
    found = grown("rows dicore", count) / (count * row)
    at_most("P18 dicore / bytes of the rows", [found], "x", 1.05)
    few = count // 10
    emit(
        "P18 list of dicts / bytes of the rows", [grown("rows list of dicts", few) / few / row], "x"
    )
    images = 2_000 if quick else 20_000
    frame = 84 * 84
    many = images if quick else 100_000  # so that what is kept once does not count
    found = grown("images dicore", many) / (many * frame)
    at_most("P21 dicore / bytes of the frames", [found], "x", 1.05 if not quick else 1.5)
    for name in ("images SB3", "images SB3 optimized"):
        try:
            each = grown(name, images) / (images * frame)
        except subprocess.CalledProcessError:
            missing("P21", "stable-baselines3")
            return
        emit(f"P21 {name.removeprefix('images ')} / bytes of the frames", [each], "x")


def grown(which: str, capacity: int) -> int:
    """Returns the bytes that a fresh process grows by while it fills a buffer."""
    command = [sys.executable, "-c", FILL, which, str(capacity)]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[1], check=True, capture_output=True, text=True
    )
    return int(done.stdout.split()[-1])


def main() -> None:
    quick = "--quick" in sys.argv
    if quick:
        measure.ROUNDS, measure.ROUND_S = 3, 0.05
    figures: list[dict[str, Any]] = []
    measure.collect(figures)
    uniform.main()
    prioritized(quick=quick)
    sequences(quick=quick)
    growth(quick=quick)
    memory(quick=quick)
    functions.main()
    if not quick:
        images.memory_and_draws()
        RESULTS.mkdir(exist_ok=True)
        lines = "\n".join(map(json.dumps, figures))
        (RESULTS / "buffers.jsonl").write_text(f"{lines}\n", encoding="utf-8")
        (RESULTS / "buffers.md").write_text(table(figures), encoding="utf-8")
        PICTURE.write_text(picture(figures), encoding="utf-8")


def table(figures: list[dict[str, Any]]) -> str:
    """Returns all figures as a Markdown table."""
    load = os.getloadavg()[0]
    text = f"# Replay buffers\n\n{__doc__}\n{machine()}, commit {commit()}, load {load:.1f}\n\n"
    text += "![Rates and memory](../../docs/images/buffers.svg)\n\n"
    text += "| figure | median | min to max | target |\n|---|---|---|---|\n"
    for each in figures:
        sign = "≤" if each.get("better") == "less" else "≥"
        target = f"{sign} {each['target']}" if "target" in each else ""
        text += (
            f"| {each['name']} | {each['value']:,} {each['unit']}"
            f" | {each['min']:,} to {each['max']:,} | {target} |\n"
        )
    return text


def picture(figures: list[dict[str, Any]]) -> str:
    """Returns the rates of each contest as bars, as an SVG; the longest of a contest is 100 %."""
    groups: dict[str, list[tuple[str, float]]] = {}
    for each in figures:
        for prefix, what in DRAWN.items():
            if each["name"].startswith(f"{prefix} "):
                name = each["name"].removeprefix(f"{prefix} ").partition(" / bytes")[0]
                if " / " not in name:
                    unit = "bytes per byte stored" if each["unit"] == "x" else each["unit"]
                    title = f"{prefix.split()[0]}: {what}, {unit}"
                    groups.setdefault(title, []).append((name, each["value"]))
                break
    lines, y = [], 10
    for title, bars in groups.items():
        lines.append(f'<text x="0" y="{y + 12}" class="title">{title}</text>')
        y += 18
        most = max(value for _, value in bars)
        for name, value in bars:
            width = max(1.0, 320 * value / most)
            lines.append(
                f'<text x="150" y="{y + 12}" text-anchor="end">{name}</text>'
                f'<rect x="156" y="{y + 2}" width="{width:.0f}" height="13"'
                f' fill="{OURS if name.startswith("dicore") else OTHERS}"/>'
                f'<text x="{160 + width:.0f}" y="{y + 12}">{_short(value)}</text>'
            )
            y += 18
        y += 8
    style = "text{font:12px sans-serif;fill:currentColor}.title{font-weight:bold}"
    body = "\n".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 560 {y}" width="560" height="{y}"'
        f' color="#555"><style>{style}</style>\n{body}\n</svg>\n'
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    main()
