"""What env managers do when one of two environments misbehaves, beside those of other frameworks.

python -m benchmarks.faults            # writes benchmarks/results/faults.md and faults.jsonl
python -m benchmarks.faults --quick    # two faults, in process; prints only

Each case runs in a child process that is ended after 15 s. Rank 1 misbehaves in its third step;
steps go on until that shows, then once more, then the manager is closed; the processes that are
left 1 s later are counted. In the last case the calling process kills itself, and they are counted
3 s later.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import machine
from dicore.testing.faulty_env import FAULTS, FaultyEnv

RESULTS = Path(__file__).parent / "results"
START_S, LIMIT_S, CLOSE_S = 90.0, 15.0, 6.0
ROWS = (
    "raises", "exits", "killed", "hangs", "nan_obs", "nan_reward", "short_obs", "long_obs",
    "inf_obs", "lock_info", "reset_raises", "seed_raises", "close_hangs", "orphans",
)  # fmt: skip
TEXTS = {
    **FAULTS,
    "seed_raises": "a reset with a seed raises an exception",
    "orphans": "the calling process is killed",
}
TOKEN = "DICORE_FAULTS_CASE"  # noqa: S105 - name of a variable
LEFT_S, ORPHANS_S = 1.0, 3.0
IN_PROCESS = ("dicore base", "dicore thread", "Gymnasium Sync", "SB3 Dummy")
CONTENDERS = (
    "dicore base", "dicore thread", "dicore sync_subprocess", "dicore async_subprocess",
    "Gymnasium Sync", "Gymnasium Async", "SB3 Dummy", "SB3 Subproc", "Tianshou Subproc",
)  # fmt: skip
PACKAGES = {"Gymnasium": "gymnasium", "SB3": "stable_baselines3", "Tianshou": "tianshou"}


def installed(contender: str) -> bool:
    """Returns whether the framework of a contender is installed."""
    package = PACKAGES.get(contender.partition(" ")[0], "dicore")
    return importlib.util.find_spec(package) is not None


class SeedRaises(FaultyEnv):
    """Cannot be seeded."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            raise RuntimeError("planted failure of seeding")
        return super().reset(seed=seed, options=options)


# ---- the contenders: how each begins, is stepped (returns observations and rewards) and closed


def dicore_manager(name: str, makes: list[Callable[[], Any]]) -> Any:
    import dicore_registry
    from dicore.testing.component import Component

    registry = dicore_registry.default()
    component = Component(registry.find("env_manager", name), registry)
    limits = {"step_timeout": 2.0, "reset_timeout": 2.0} if name != "base" else {}
    waits = {"step_wait_timeout": 0.05} if name == "async_subprocess" else {}
    manager = component.build({"restart_budget": 3, **limits, **waits}, env_fn=makes)
    latest = [np.array([0, 1, 0], np.float32), np.array([1, 1, 0], np.float32)]

    def begin() -> None:
        manager.seed(0)
        manager.launch()

    def step() -> Any:
        answer = manager.step(dict.fromkeys(manager.ready_obs, 1))
        rewards, told = [1.0, 1.0], ""
        for env_id in answer:
            latest[env_id], rewards[env_id] = answer[env_id].obs, answer[env_id].reward
            told = told or answer[env_id].info.get("error", "")
        return latest, rewards, told

    return begin, step, manager.close


def gymnasium_vector(name: str, makes: list[Callable[[], Any]]) -> Any:
    from gymnasium import vector

    env = getattr(vector, f"{name}VectorEnv")(makes)

    def step() -> Any:
        obs, reward, *_ = env.step(np.array([1, 1]))
        return obs, reward, ""

    return lambda: env.reset(seed=0), step, env.close


def sb3_vec_env(name: str, makes: list[Callable[[], Any]]) -> Any:
    from stable_baselines3.common import vec_env

    env = getattr(vec_env, f"{name}VecEnv")(makes)

    def begin() -> None:
        env.seed(0)
        env.reset()

    def step() -> Any:
        obs, reward, *_ = env.step(np.array([1, 1]))
        return obs, reward, ""

    return begin, step, env.close


def tianshou_vector(name: str, makes: list[Callable[[], Any]]) -> Any:
    from tianshou import env as envs

    env = getattr(envs, f"{name}VectorEnv")(makes)

    def step() -> Any:
        obs, reward, terminated, truncated, _ = env.step(np.array([1, 1]))
        ended = np.flatnonzero(terminated | truncated)
        if len(ended):
            env.reset(ended)
        return obs, reward, ""

    def begin() -> None:
        env.seed(0)
        env.reset()

    return begin, step, env.close


MAKERS: dict[str, Callable[[str, list[Callable[[], Any]]], Any]] = {
    "dicore": dicore_manager,
    "Gymnasium": gymnasium_vector,
    "SB3": sb3_vec_env,
    "Tianshou": tianshou_vector,
}


# ---- one case, in a child process


def say(what: str, text: object) -> None:
    short = re.sub(
        r"[^\s(]*(site-packages|dicore/testing|benchmarks)/", "", " ".join(str(text).split())
    )
    print(json.dumps({what: short[:300]}), flush=True)


def told(error: BaseException) -> str:
    return f"{type(error).__name__}: {getattr(error, 'message', None) or error}"


def run_case(contender: str, fault: str) -> None:
    family, _, name = contender.partition(" ")
    with tempfile.TemporaryDirectory() as folder:
        mark = str(Path(folder) / "mark")
        mode = fault if fault in FAULTS else ""
        faulty = SeedRaises if fault == "seed_raises" else FaultyEnv
        makes = [FaultyEnv, partial(faulty, mode, 1, mark=mark)]
        begin, step, close = MAKERS[family](name, makes)
        try:
            begin()
        except Exception as error:
            say("step", told(error))
            finish(close)
        say("at", "step")
        if fault == "orphans":
            step()
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            say("step", steps(step))
        except Exception as error:
            say("step", told(error))
            say("at", "the next step")
            try:
                step()
                say("next", "works")
            except Exception as again:
                say("next", told(again))
        finish(close)


def finish(close: Callable[[], Any]) -> None:
    """Closes a manager, counts the processes that are left, and ends this one."""
    say("at", "close()")
    begun = time.monotonic()
    thread = threading.Timer(CLOSE_S, lambda: say("close", f"hangs (> {CLOSE_S:g} s)"))
    thread.daemon = True
    thread.start()
    try:
        close()
        say("close", f"{time.monotonic() - begun:.1f} s")
    except Exception as error:
        say("close", told(error))
    thread.cancel()
    until = time.monotonic() + LEFT_S
    while (left := children(os.getpid())) and time.monotonic() < until:
        time.sleep(0.05)
    note = ", a zombie" if left == ["Z"] else ""
    say("left", f"{len(left)} left{note}" if left else "")
    os._exit(0)


def steps(step: Callable[[], Any]) -> str:
    """Steps 30 times; returns what was reported or returned as valid."""
    shown = ""
    for number in range(1, 31):
        obs, reward, reported = step()
        if reported and not shown:
            shown = f"abnormal step, then it goes on: {reported}"
        found = np.asarray(obs[1])
        odd = found.shape != (3,) or not np.isfinite(found).all() or found[0] != 1
        if (odd or not np.isfinite(reward[1])) and not shown:
            shown = f"accepted in step {number}: {found.tolist()}, reward {reward[1]}"
    return shown or "it goes on"


def children(pid: int) -> list[str]:
    """Returns the states of the child processes that were to run environments, by /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            command = (folder / "cmdline").read_bytes()
            helper = b"forkserver" in command or b"resource_tracker" in command
            if int(stat[1]) == pid and not helper:
                found.append(stat[0])
    return found


def orphans(token: str) -> list[int]:
    """Returns the processes of a case that are left 3 s after its end; they are killed."""
    wanted = f"{TOKEN}={token}".encode()
    until = time.monotonic() + ORPHANS_S
    while True:
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if state != "Z" and wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
        if not found or time.monotonic() > until:
            break
        time.sleep(0.1)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found


# ---- all cases


def case(contender: str, fault: str) -> dict[str, str]:
    """Runs a case in a child process; returns what it said."""
    token = secrets.token_hex(8)
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.faults", "--case", contender, fault],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        env={**os.environ, TOKEN: token},
    )  # fmt: skip
    said: dict[str, str] = {}
    begun = threading.Event()

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                if line.startswith("{"):
                    said.update(json.loads(line))
                    begun.set()

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    begun.wait(START_S)
    hung = True
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(LIMIT_S)
        hung = False
    if fault == "orphans" and not hung:
        said["orphans"] = str(len(orphans(token)))
        thread.join(5.0)
        return said
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    thread.join(5.0)
    if hung and "left" not in said:
        said.setdefault("hangs", said.get("at", "construction"))
    elif "left" not in said:
        said["ended"] = f"the calling process ended in {said.get('at', 'construction')}"
    return said


def text_of(said: dict[str, str]) -> str:
    if "orphans" in said:
        return f"**{said['orphans']} left**" if said["orphans"] != "0" else "none is left"
    parts = [said[key] for key in ("step",) if key in said]
    if "hangs" in said and not said.get("close", "").startswith("hangs"):
        parts.append(f"**{said['hangs']} hangs**")
    if "ended" in said:
        parts.append(f"**{said['ended']}**")
    if "next" in said:
        parts.append(f"next step: {said['next']}")
    close = said.get("close", "")
    if close and not close.endswith(" s"):
        parts.append(f"**close(): {close}**")
    if said.get("left"):
        parts.append(f"**processes: {said['left']}**")
    return "; ".join(parts).replace("|", "\\|")


def table(found: list[dict[str, str]]) -> str:
    """Returns the results as a Markdown table."""
    lines = [f"| fault | {' | '.join(CONTENDERS)} |", "|---" * (len(CONTENDERS) + 1) + "|"]
    cells = {(each["fault"], each["contender"]): text_of(each) for each in found}
    for fault in ROWS:
        row = " | ".join(cells.get((fault, contender), "") for contender in CONTENDERS)
        lines.append(f"| {TEXTS[fault]} | {row} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    if "--case" in sys.argv:
        run_case(*sys.argv[-2:])
        return
    quick = "--quick" in sys.argv
    found = []
    for fault in ("raises", "short_obs") if quick else ROWS:
        for contender in filter(installed, IN_PROCESS if quick else CONTENDERS):
            if contender in IN_PROCESS and fault in ("killed", "orphans"):
                continue
            said = {"fault": fault, "contender": contender, **case(contender, fault)}
            found.append(said)
            print(f"{fault:<13}{contender:<24}{text_of(said)}", flush=True)
    if quick:
        return
    RESULTS.mkdir(exist_ok=True)
    lines = "\n".join(map(json.dumps, found))
    (RESULTS / "faults.jsonl").write_text(f"{lines}\n", encoding="utf-8")
    text = f"# Faults\n\n{__doc__}\n{machine()}\n\n{table(found)}"
    (RESULTS / "faults.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
