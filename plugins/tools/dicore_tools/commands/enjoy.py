"""`dicore enjoy`: looks at environments, and at what a policy does in them."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dicore.console import plural, verbosity
from dicore.errors import DicoreError, UsageError
from dicore_tools.commands.interrupted import says_what_was_saved
from dicore_tools.commands.options import CHECKPOINT, TRUST

if TYPE_CHECKING:
    from dicore_tools.evaluation.play import Played
    from dicore_tools.evaluation.policy_loader import TrainedPolicy
    from dicore_tools.json_output.runs import PlayedEpisodes

__all__ = ["command"]

_EPILOG = """\b
Examples:
  dicore enjoy runs/cartpole_dqn_s0             what the trained policy does
  dicore enjoy pendulum                         an environment with random actions
  dicore enjoy gymnasium:Acrobot-v1 -p none     the same action all the time
  dicore enjoy cartpole -p ./balance.py:Balance --show text
  dicore enjoy runs/x --show video -o film -n 3
  dicore enjoy --all --exclude 'atari*' --show none --steps 200

A window is opened where there is a display; otherwise frames are drawn in a terminal. Nothing is
trained and nothing is written to the run folder. With several environments, or --all, those that
fail are listed at the end, and the exit code is 1.
"""
_OF_TRAINING = ("n_evaluator_episode", "stop_value")
"""Required options that only a training needs."""
_BASE = "env.manager=base"
"""Episodes are played in this process, where a window or a terminal can be used."""


@click.command(name="enjoy", epilog=_EPILOG)
@click.argument("words", nargs=-1, metavar="[RUN|CKPT|ENV]... [a.b=c]...")
@click.option(
    "-p",
    "--policy",
    metavar="NAME",
    help="Who acts in an environment: random, none (the same action), or a policy of your own"
    " (./file.py:Class).  [default: random]",
)
@click.option(
    "--show",
    type=click.Choice(["auto", "window", "text", "video", "none"]),
    default="auto",
    show_default=True,
    help="Where the episodes are seen; none only runs them.",
)
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("video"),
    show_default=True,
    help="Folder of the videos.",
)
@click.option(
    "-n",
    "--n-episode",
    "--n_episode",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of episodes.",
)
@click.option("--steps", type=click.IntRange(1), help="End after this number of env steps.")
@click.option("--delay", type=click.FloatRange(0), help="Seconds between two frames.")
@click.option(
    "-s", "--seed", type=click.IntRange(0), help="Seed of the episodes.  [default: the run's, or 0]"
)
@CHECKPOINT
@click.option("--all", "everything", is_flag=True, help="All installed environments.")
@click.option(
    "--include", multiple=True, metavar="PATTERN", help="With --all: only these environments."
)
@click.option("--exclude", multiple=True, metavar="PATTERN", help="With --all: not these.")
@TRUST
@click.option("--json", "as_json", is_flag=True, help="Print only JSON.")
@verbosity
@click.pass_context
@says_what_was_saved("out")
def command(
    ctx: click.Context,
    /,
    words: Sequence[str],
    *,
    everything: bool,
    include: Sequence[str],
    exclude: Sequence[str],
    as_json: bool,
    **given: Any,
) -> None:
    """Plays episodes to look at, of a trained policy or of an environment."""
    from dicore.console import own_process, say
    from dicore_tools.commands.words import split_words

    own_process()
    places, overrides = split_words(words)
    if (include or exclude) and not everything:
        raise UsageError("--include and --exclude choose among the environments of --all")
    if everything:
        places += _installed(include, exclude)
    if not places:
        raise UsageError("no run or environment given", hint="dicore enjoy cartpole")
    how = _How(overrides=(*overrides, _BASE), silent=as_json, **given)
    if as_json:
        ctx.exit(_print_facts(places, how))
    if len(places) == 1:
        played = how.play(places[0])
        for line in how.seen(played):
            say(line)
        say(f"{places[0]}: {played}", result=True)
        return
    failed = 0
    for place in places:
        try:
            text = str(how.play(place))
        except Exception as error:  # of a foreign environment: whatever it likes
            failed += 1
            text = f"failed: {_brief(error)}"
        say(f"{place}: {text}", result=True)
    say(f"{plural(len(places), 'environment')}, {failed} failed", result=True)
    ctx.exit(1 if failed else 0)


@dataclass(frozen=True, kw_only=True)
class _How:
    """How episodes are played and shown, by the options of the command."""

    overrides: Sequence[str]
    policy: str | None
    show: str
    out: Path
    n_episode: int
    steps: int | None
    delay: float | None
    seed: int | None
    load_path: str | None
    trust: bool
    silent: bool = False

    def seen(self, played: Played) -> Iterator[str]:
        """Yields where the episodes are to be seen, and why they are not."""
        yield from (f"video: {video}" for video in played.videos)
        if self.show == "video" and not played.videos:
            yield f"no video: no episode ended within {plural(played.steps, 'env step')}"
        if self.show == "auto" and _place_to_show() == "none":
            yield (
                "there is no display: nothing is shown; --show video records to --out,"
                " --show text prints frames"
            )

    def play(self, place: str) -> Played:
        from dicore_tools.evaluation.play import play

        options: dict[str, Any] = {"n_episode": self.n_episode, "max_step": self.steps}
        options |= {"delay": self.delay, "folder": self.out, "idle": self.policy == "none"}
        show: Any = self.show
        if show == "auto":
            show = "none" if self.silent else _place_to_show()
        with contextlib.nullcontext() if show == "text" else contextlib.redirect_stdout(sys.stderr):
            return play(self._find(place), show=show, **options)

    def _find(self, place: str) -> TrainedPolicy:
        from dicore.run.request import TrainRequest
        from dicore_tools.evaluation.policy_loader import check_foreign, find_policy, fixed_policy

        check_foreign(place)
        if Path(place).is_dir():
            if self.policy is not None:
                raise UsageError(
                    "-p chooses who acts in an environment; a run has its own policy",
                    hint=f"dicore enjoy ENV -p {self.policy}",
                )
            return find_policy(place, self.load_path, seed=self.seed, overrides=self.overrides,
                               trust=self.trust)  # fmt: skip
        if self.load_path is not None:
            raise UsageError("--load-path names a checkpoint of a run; no run is given")
        policy = "random" if self.policy in (None, "none") else self.policy
        request = TrainRequest(
            env=place.removeprefix("env/"), policy=policy, seed=self.seed, trust=self.trust
        )
        return fixed_policy(request, overrides=self.overrides)


def _print_facts(places: Sequence[str], how: _How) -> int:
    """Plays and prints JSON; returns the exit code."""
    from dicore.console import say

    if how.show == "text":
        raise UsageError("--json and --show text both print")
    plays = [_facts(place, how, one=len(places) == 1) for place in places]
    say(json.dumps(plays, indent=1), result=True)
    return int(any(each["error"] for each in plays))


def _facts(place: str, how: _How, *, one: bool) -> PlayedEpisodes:
    """Plays in one environment and returns what `--json` prints of it."""
    try:
        played = how.play(place)
    except Exception as error:  # of a foreign environment: whatever it likes
        if one:
            raise
        return {"place": place, "returns": [], "steps": 0, "videos": [], "error": _brief(error)}
    returns = [each if isfinite(each) else None for each in map(float, played.returns)]
    videos = [str(each) for each in played.videos]
    return {"place": place, "returns": returns, "steps": played.steps, "videos": videos,
            "error": ""}  # fmt: skip


def _installed(include: Sequence[str], exclude: Sequence[str]) -> list[str]:
    """Returns the names of the environments that can be made without further options.

    Raises:
        UsageError: no name matches.
    """
    import dicore_registry
    from dicore.cli.show import describe

    registry = dicore_registry.default()
    entries = [entry for entry in registry.entries("env") if entry.status == "ok"]
    found = [
        entry.name
        for entry in entries
        if (not include or any(fnmatch(entry.name, each) for each in include))
        and not any(fnmatch(entry.name, each) for each in exclude)
        and not any(
            option["required"] and option["name"] not in _OF_TRAINING
            for option in describe(registry, entry)["options"]
        )
    ]
    if not found:
        raise UsageError("no installed environment matches", hint="dicore list env")
    return found


def _place_to_show() -> str:
    has_display = sys.platform in ("win32", "darwin") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    return "window" if has_display else "text" if sys.stdout.isatty() else "none"


def _brief(error: Exception) -> str:
    text = error.message if isinstance(error, DicoreError) else str(error)
    return text.strip().split("\n")[0] or type(error).__name__
