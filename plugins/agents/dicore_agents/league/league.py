"""The state of a league, and its jobs: a player learns against an opponent, results are counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dicore.run import read_state, write_state
from dicore.run.atomic import write_file
from dicore_agents.league.interface import Participant, Standing
from dicore_agents.league.manager import outcome
from dicore_agents.league.names import COPIES, FILE
from dicore_agents.league.opponents import LAST, PolicyOpponent, RandomOpponent, SharedOut
from dicore_agents.league.payoff import Payoff, as_table
from dicore_agents.league.ratings import Ratings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dicore.data import State, StateDict
    from dicore.run import Run
    from dicore_agents.league.config import LeagueConfig
    from dicore_agents.league.interface import ILeaguePlayer
    from dicore_agents.league.manager import SideManager
    from dicore_agents.league.opponents import IOpponent
    from dicore_agents.league.parts import PlayerParts

__all__ = ["League"]

_CACHED: Final = 64
"""Frozen policies whose parameters are kept in memory."""


class League:
    """Players that learn, their frozen copies, and what is known of their games.

    The folder `league` of the run has a checkpoint of each frozen copy; `league.json` tells who
    beat whom. All else is part of the run's checkpoints, which are written between jobs.

    Args:
        cfg: Section of the pipeline.
        run: The run.
        players: The players by name.
        types: Their roles by name.
        parts: The parts of those that learn, by name; the first is that of the run.
        given: Parameters of players that do not learn and have some, by name.
    """

    def __init__(
        self,
        cfg: LeagueConfig,
        run: Run,
        players: Mapping[str, ILeaguePlayer],
        types: Mapping[str, str],
        parts: Mapping[str, PlayerParts],
        given: Mapping[str, Any],
    ) -> None:
        self._cfg, self._run, self._players, self._parts = cfg, run, players, parts
        self._types, self._given = types, given
        self.standing = Standing([], Payoff(cfg.decay), dict.fromkeys(parts, 0))
        self.ratings = Ratings()
        self.jobs = self.env_step = self.train_iter = 0
        self._frozen: dict[str, int] = dict.fromkeys(parts, 0)
        self._states: dict[str, Any] = {}
        for name, player in players.items():
            self._enter(Participant(name, types[name], name, frozen=not player.learns))
        first = next(iter(parts.values()))
        self._mirrors = [first.cfg.policy.build(first.ctx) for _ in range(cfg.opponents)]
        self._random = RandomOpponent(first.ctx.spec, run.streams.stream("league/random"))  # type: ignore[arg-type]

    def _enter(self, who: Participant, like: str | None = None) -> None:
        self.standing.participants.append(who)
        self.ratings.enter(who.name, like)

    # ---- a job

    def job(self) -> PlayerParts:
        """Lets the next player learn against the opponent that it chooses; returns its parts."""
        name = [*self._parts][self.jobs % len(self._parts)]
        parts, player = self._parts[name], self._players[name]
        rng = self._run.streams.stream("league/matchmaking")
        count = min(self._cfg.opponents, parts.collector_env.env_num)
        rivals = [player.opponent(name, self.standing, rng) for _ in range(count)]
        met = [self._opponent(rival, place) for place, rival in enumerate(rivals)]
        others = len(parts.collector_env.sides) - 1
        parts.collector_env.opponent = met[0] if count == 1 else SharedOut(met, others)
        before = parts.collector.envstep, parts.learner.train_iter
        parts.play(self._cfg.job_steps)
        steps = parts.collector.envstep - before[0]
        self.jobs += 1
        self.env_step += steps
        self.train_iter += parts.learner.train_iter - before[1]
        self.standing.steps[name] += steps
        for rival, results in self._results(parts.collector_env, rivals).items():
            self.standing.payoff.add(name, rival, *results)
            self.ratings.add(name, rival, *results)
            self._log(name, rival, results)
        self._apply_rules(name, rng)
        return parts

    @staticmethod
    def _results(side: SideManager, rivals: Sequence[str]) -> dict[str, tuple[int, int, int]]:
        """Returns wins, draws and losses of a job, by opponent."""
        found = {rival: np.zeros(3, np.int64) for rival in rivals}
        for env_id, margin in zip(side.ended, side.margins, strict=True):
            found[rivals[env_id % len(rivals)]] += outcome(margin)
        return {rival: (int(each[0]), int(each[1]), int(each[2])) for rival, each in found.items()}

    def _opponent(self, name: str, place: int) -> IOpponent:
        """Returns who plays as a participant is now, with the network number `place`."""
        who = self.standing.named(name)
        source = self._parts.get(who.of)
        if source is None and name not in self._given:
            return self._random
        state = source.policy.eval_mode.state_dict() if source and not who.frozen else None
        sample = self._cfg.sample
        section: Any = next(iter(self._parts.values())).cfg.policy
        mirror = self._mirrors[place]
        mode = mirror.eval_mode
        settings: Mapping[str, object] = {}
        if section.on_policy if sample is None else sample:
            mode = mirror.collect_mode
            settings = mirror.command_mode.get_setting_collect(LAST)
        mode.load_state_dict(self._state(name) if state is None else state)
        return PolicyOpponent(mode, settings)

    def _state(self, name: str) -> Any:
        """Returns the parameters of a frozen participant."""
        if name in self._given:
            return self._given[name]
        if name not in self._states:
            if len(self._states) >= _CACHED:
                self._states.pop(next(iter(self._states)))
            self._states[name] = read_state(self.folder(name))["learner"]["policy"]
        return self._states[name]

    def folder(self, name: str) -> Path:
        """Returns the folder of the checkpoint of a frozen copy."""
        return self._run.folder.path / COPIES / name.replace(":", "_")

    # ---- rules

    def _apply_rules(self, name: str, rng: np.random.Generator) -> None:
        player, standing = self._players[name], self.standing
        if not player.should_freeze(name, standing):
            return
        self.freeze(name)
        standing.steps[name] = 0
        if player.should_reset(name, standing, rng):
            self._parts[name].start_again()
            standing.payoff.forget(name)
            self.ratings.enter(name)

    def freeze(self, name: str) -> str:
        """Adds a frozen copy of a player to the league; returns its name."""
        self._frozen[name] += 1
        copy = f"{name}:{self._frozen[name]}"
        state = self._parts[name].policy.eval_mode.state_dict()
        target = self.folder(copy)
        target.parent.mkdir(exist_ok=True)
        facts = {"train_iter": self.train_iter, "env_step": self.env_step}
        write_state(target, {"learner": {"policy": state}}, facts)
        self._states.pop(copy, None)
        self._enter(Participant(copy, self._types[name], name, frozen=True), like=name)
        self.standing.payoff.copy_as(name, copy)
        self._run.due = True  # a checkpoint that knows of it
        return copy

    # ---- what is told

    def _log(self, name: str, rival: str, results: tuple[int, int, int]) -> None:
        wins, draws, losses = results
        games = wins + draws + losses
        own = {
            f"league/{name}/elo": self.ratings.elo[name],
            f"league/{name}/win_rate": (wins + draws / 2) / games if games else None,
            "league/participants": len(self.standing.participants),
        }
        if name in self.ratings.skill:
            own[f"league/{name}/skill"] = self.ratings.skill[name][0]
        counts = {"env_step": self.env_step, "train_iter": self.train_iter}
        self._run.log.log_scalars(own, **counts)
        self._run.log.log_text(
            f"job {self.jobs}: {name} against {rival}: {wins} won, {draws} drawn, {losses} lost;"
            f" {self.env_step} env steps",
            channel="league",
        )

    def write(self) -> None:
        """Writes `league.json`."""
        participants = self.standing.participants
        names = [each.name for each in participants]
        payoff = self.standing.payoff
        skill = self.ratings.skill
        rows = [
            {
                "name": each.name, "role": each.role, "of": each.of, "frozen": each.frozen,
                "elo": round(self.ratings.elo[each.name], 3),
                **({"mu": skill[each.name][0], "sigma": skill[each.name][1]} if skill else {}),
            }
            for each in participants
        ]  # fmt: skip
        told: dict[str, Any] = {
            "jobs": self.jobs, "env_step": self.env_step, "train_iter": self.train_iter,
            "participants": rows, "payoff": as_table(payoff, names),
        }  # fmt: skip
        write_file(self._run.folder.path / FILE, json.dumps(told).encode())

    def state_dict(self) -> StateDict:
        """Returns all but the parameters of the players."""
        participants = [
            [each.name, each.role, each.of, each.frozen] for each in self.standing.participants
        ]
        return {
            "participants": participants,
            "steps": dict(self.standing.steps),
            "frozen": dict(self._frozen),
            "payoff": self.standing.payoff.state_dict(),
            "ratings": self.ratings.state_dict(),
            "counts": [self.jobs, self.env_step, self.train_iter],
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self.standing.participants[:] = [
            Participant(str(name), str(role), str(of), bool(frozen))
            for name, role, of, frozen in state["participants"]
        ]
        self.standing.steps.update({str(key): int(each) for key, each in state["steps"].items()})
        self._frozen = {str(key): int(each) for key, each in state["frozen"].items()}
        self.standing.payoff.load_state_dict(state["payoff"])
        self.ratings.load_state_dict(state["ratings"])
        self.jobs, self.env_step, self.train_iter = (int(each) for each in state["counts"])
        self._states.clear()
