"""The parts of one player of a league: policy, learner, collector, and its side of the game."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

import attrs

from dicore.run.env_factory import BuildContext, make_env_manager
from dicore.run.random import hash_seed
from dicore.task import OnlineRLContext, Task
from dicore_agents.league.manager import SideManager
from dicore_agents.league.opponents import RandomOpponent
from dicore_agents.league.sides import Sides
from dicore_plugins.pipelines import Parts, SerialPipeline

if TYPE_CHECKING:
    from dicore.config.sections import EnvConfig, RunConfig
    from dicore.data import State, StateDict
    from dicore.interfaces.env_manager import IEnvManager
    from dicore.interfaces.learner import ILearner
    from dicore.run import Run

__all__ = ["PlayerParts", "game_of", "sides_of"]

_SEEDS = 2**31


class PlayerParts(Parts):
    """The parts of a player that learns; see `Parts`.

    Args:
        cfg: A bound config, whose last env wrapper is `one_side`.
        run: The run of the league.
        name: Name of the player.
        first: Its policy is that of the run: it is logged, evaluated and saved as `learner`.
    """

    def __init__(self, cfg: RunConfig, run: Run, name: str, *, first: bool) -> None:
        pipeline = attrs.evolve(cfg.pipeline, max_env_step=None, max_train_iter=None)
        super().__init__(attrs.evolve(cfg, pipeline=pipeline), None, log=run.log if first else None)
        self.name, self.first, self._league_run = name, first, run
        self.seed = hash_seed(cfg.seed, "league", name) % _SEEDS

    @cached_property
    def ctx(self) -> BuildContext:
        """What parts are built with."""
        run = self._league_run
        spec = self.collector_env.spec
        return BuildContext(spec, device=run.device, seed=self.seed, run=run)

    @cached_property
    def collector_env(self) -> SideManager:
        """The player's side of the game; `opponent` plays the others."""
        ctx = BuildContext(seed=self.seed, run=self._league_run)
        envs = make_env_manager(game_of(self.cfg), "collector", self.seed, ctx=ctx)
        sides, seat = sides_of(self.cfg, envs)
        drawn = RandomOpponent(sides.spec, self._league_run.streams.stream("league/random"))
        return SideManager(envs, sides, drawn, seat=seat, seed=self.seed)

    @cached_property
    def learner(self) -> ILearner:
        """Updates the policy; only that of the first player logs and saves."""
        section, run = self.cfg.policy.learn.learner, self._league_run
        if not self.first:
            section = attrs.evolve(section, hook=())
        learner: ILearner = section.build(
            self.ctx, policy=self.policy.learn_mode, run=run if self.first else None
        )
        for hook in run.learner_hooks if self.first else ():
            learner.register_hook(hook)
        return learner

    @cached_property
    def task(self) -> Task:
        """The loop in which it collects and learns, one step at a time."""
        pipeline: Any = SerialPipeline(self.cfg.pipeline)
        chosen = pipeline.chosen(self.cfg)
        task = Task().start(ctx=chosen.context())
        for stage in chosen.stages(self):
            task.use(stage)
        return task

    def register(self) -> None:
        """Registers what has state with the run."""
        run, start = self._league_run, "" if self.first else f"{self.name}_"
        run.register(f"{start}learner", self.learner)
        run.register(f"{start}collector_env", self.collector_env, bulky=True)
        run.register(f"{start}collector", self.collector)
        if "buffer" in self:
            run.register(f"{start}buffer", self.buffer, bulky=True)
        if self.first:
            run.register("evaluator", self.evaluator)
        run.register(f"{start}loop", _Counts(self))

    def build(self) -> None:
        """Builds everything, and keeps the first parameters, with which it may start again."""
        _ = self.task, self.learner, self.collector
        self.born = copy.deepcopy(self.learner.state_dict())

    def start_again(self) -> None:
        """Forgets all that was learned and collected."""
        self.learner.load_state_dict(copy.deepcopy(self.born))
        self.collector.reset(self.collect_mode, self.collector_env)
        if "buffer" in self:
            self.buffer.clear()
        self.restore({})

    def play(self, env_steps: int) -> None:
        """Collects and learns for at least so many env steps, in new episodes."""
        collector = self.collector
        self.collector_env.margins.clear()
        self.collector_env.ended.clear()
        collector.reset_env()
        until = collector.envstep + env_steps
        while collector.envstep < until:
            self.task.run(max_step=1)

    def restore(self, counts: State) -> None:
        """Sets the counters of the loop."""
        if self.task.spent:
            self.task.renew()
        ctx: Any = self.task.ctx
        fresh = OnlineRLContext()
        for name in _KEPT:
            setattr(ctx, name, counts.get(name, getattr(fresh, name)))


_KEPT = ("total_step", "env_step", "env_episode", "train_iter")


class _Counts:
    """The counters of a player's loop, as a part of the run."""

    def __init__(self, parts: PlayerParts) -> None:
        self._parts = parts

    def state_dict(self) -> StateDict:
        ctx: Any = self._parts.task.ctx
        return {name: getattr(ctx, name) for name in _KEPT}

    def load_state_dict(self, state: State) -> None:
        self._parts.restore(state)


def game_of(cfg: RunConfig) -> EnvConfig:
    """Returns the section of the whole game: without its last wrapper, `one_side`."""
    return attrs.evolve(cfg.env, env_wrapper=cfg.env.env_wrapper[:-1])


def sides_of(cfg: RunConfig, envs: IEnvManager) -> tuple[Sides, int | None]:
    """Returns the sides of the game, and the number of the one that is shown."""
    from dicore.interfaces.env import EnvSpec

    wrapper = cfg.env.env_wrapper[-1]
    return Sides(EnvSpec.of(envs), wrapper.sides), wrapper.seat
