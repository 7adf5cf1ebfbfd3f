"""The pipeline of leagues: jobs in turn, rules, evaluations and checkpoints between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dicore.config import bind
from dicore.config.layers import Problems
from dicore.errors import ConfigError, DicoreError, UsageError
from dicore.run.env_factory import spec_of
from dicore_agents.league.battle import Contestant, check_same_game, find_contestant
from dicore_agents.league.config import LeagueConfig, named
from dicore_agents.league.league import League
from dicore_agents.league.parts import PlayerParts
from dicore_plugins.pipelines import SerialPipeline, TrainingPipeline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from torch import nn

    from dicore.config import Compiled
    from dicore.config.sections import RunConfig
    from dicore.interfaces.policy import IPolicy
    from dicore.run import Run

__all__ = ["LeaguePipeline"]


class LeaguePipeline(TrainingPipeline):
    """Trains the players of a league in turn, each against the opponent that it chooses.

    A job is `job_steps` env steps of one player, by the stages of the serial pipeline; its opponent
    does not change meanwhile. Between jobs, results are counted, players are frozen or begin again,
    the first player is evaluated and checkpoints are written, from which the league goes on as if
    it had not been interrupted.
    """

    config_class = LeagueConfig

    def chosen(self, cfg: RunConfig) -> TrainingPipeline:
        """Returns the pipeline whose stages a player runs."""
        return SerialPipeline(self._cfg).chosen(cfg)

    def check(self, compiled: Compiled) -> None:
        """Checks that there is a game with sides, and that all players have somebody to meet.

        Raises:
            ConfigError: options are incompatible; the error lists all of them.
        """
        cfg = compiled.cfg
        problems = Problems()
        problems.extend(_game_problems(cfg))
        problems.extend(_player_problems(named(self._cfg.players), self._cfg.players))
        problems.raise_if_any()
        super().check(compiled)
        self._given = _foreign(cfg, named(self._cfg.players))

    def run(self, compiled: Compiled, run: Run, *, model: nn.Module | None = None) -> IPolicy:
        """Trains until a budget, the stop value, or a request to stop; returns the policy.

        Raises:
            UsageError: a network is given, which the players would share.
        """
        if model is not None:
            raise UsageError(
                "a league makes a network for each player; it cannot use one from outside",
                hint="register the network and set policy.model.type",
            )
        cfg = compiled.cfg
        torch.set_num_threads(self._cfg.num_threads)
        sections = named(self._cfg.players)
        players = {name: each.build(None) for name, each in sections.items()}
        parts: dict[str, PlayerParts] = {}
        for name, player in players.items():
            if player.learns:
                parts[name] = PlayerParts(cfg, run, name, first=not parts)
        first = next(iter(parts.values()))
        try:
            for each in parts.values():
                each.build()
                each.register()
            types = {name: each.type for name, each in sections.items()}
            league = League(self._cfg, run, players, types, parts, self._given)
            counts = {"env_step": lambda: league.env_step, "train_iter": lambda: league.train_iter}
            run.register("league", league, counts=counts)
            run.restore()
            run.deferring = True
            run.first_step()
            first.learner.call_hook("before_run")
            self._loop(league, first, run)
            run.deferring = False
            self._end(league, first, run)
            first.learner.call_hook("after_run")
        finally:
            run.cpu.stop()
            for each in parts.values():
                each.close()
                each.task.stop()
        return first.policy

    def _loop(self, league: League, first: PlayerParts, run: Run) -> None:
        """Plays jobs until a limit is reached."""
        while not run.stop_requested and not self._is_spent(league) and not _stopped(first):
            played = league.job()
            if played is first and _is_due(first):
                self._evaluate(league, first, run)
            league.write()
            run.log.log_progress(env_step=league.env_step, train_iter=league.train_iter)
            run.save_due(league.train_iter)

    def _is_spent(self, league: League) -> bool:
        steps, updates = self._cfg.max_env_step, self._cfg.max_train_iter
        spent = steps is not None and league.env_step >= steps
        return spent or (updates is not None and league.train_iter >= updates)

    def _evaluate(self, league: League, first: PlayerParts, run: Run) -> bool:
        """Evaluates the first player against the config's opponent; returns whether to stop."""
        evaluator: Any = first.evaluator

        def save(name: str) -> None:
            run.save_best(evaluator.best_return)
            run.due = True  # `best` is not whole: a checkpoint to resume from follows

        result = evaluator.eval(
            save, first.learner.train_iter, league.env_step,
            should_stop=lambda: run.stop_requested,
        )  # fmt: skip
        return bool(result.stop)

    def _end(self, league: League, first: PlayerParts, run: Run) -> None:
        """Evaluates if a budget ended the training, and saves `final`."""
        stopped = _stopped(first)
        evaluator: Any = first.evaluator
        if self._cfg.final_eval and not run.stop_requested and not stopped:
            stopped = self._evaluate(league, first, run)
        run.stop_clock()
        best = evaluator.best_return
        run.set_result(
            stop=stopped, train_iter=league.train_iter, env_step=league.env_step,
            best_return=None if best == float("-inf") else best,
        )  # fmt: skip
        league.write()
        run.save_checkpoint("final")


def _is_due(first: PlayerParts) -> bool:
    collector, learner = first.collector, first.learner
    counts = learner.train_iter, collector.envstep, collector.total_episode_count
    evaluator: Any = first.evaluator
    due = getattr(evaluator, "due", None)
    if due is None:
        return bool(evaluator.should_eval(learner.train_iter))
    return bool(due(*counts, beside=False))


def _stopped(first: PlayerParts) -> bool:
    evaluator: Any = first.evaluator
    found = getattr(evaluator.last_result, "stop", False)
    return bool(found or getattr(evaluator, "has_stopped", False))


def _game_problems(cfg: RunConfig) -> Iterator[tuple[str, str]]:
    wrappers = [each.type for each in cfg.env.env_wrapper]
    if not wrappers or wrappers[-1] != "one_side" or wrappers.count("one_side") > 1:
        yield (
            "env.env_wrapper",
            "a league plays the sides of a game; expected one_side as the last wrapper"
            " ('env.env_wrapper=[one_side]')",
        )
    elif cfg.env.env_wrapper[-1].seat is not None:
        yield (
            f"env.env_wrapper[{len(wrappers) - 1}].seat",
            "players of a league learn and play every side; leave it out",
        )
    envs, opponents = cfg.env.collector_env_num, int(cfg.pipeline.get("opponents", 1))
    if opponents > envs:
        yield (
            "pipeline.opponents",
            f"each needs an environment of its own; expected at most {envs}, as"
            f" env.collector_env_num, got {opponents}",
        )
    if cfg.policy.offline or getattr(cfg.policy, "demonstrations", False):
        yield "policy.type", f"'{cfg.policy.type}' learns from recorded data, not by playing"
    for part in ("reward_model", "world_model"):
        if cfg.policy.get(part) is not None:
            yield f"policy.{part}", "a league has none; expected null"


def _player_problems(
    players: Mapping[str, Any], listed: tuple[Any, ...]
) -> Iterator[tuple[str, str]]:
    """Yields what is wrong with the list of players."""
    place = "pipeline.players"
    if len(players) < len(listed):
        names = [getattr(each, "name", None) for each in listed]
        twice = next(name for name in names if name and names.count(name) > 1)
        yield place, f"two players are named '{twice}'; name them apart"
    learning = [name for name, each in players.items() if each.build(None).learns]
    if not learning:
        yield place, "nobody learns; add main"
    for name, each in players.items():
        if not name.replace("_", "").isalnum():
            yield place, f"name '{name}': expected letters, digits and _"
        against = getattr(each, "against", None)
        for rival in against or ():
            if rival not in players:
                known = ", ".join(players)
                yield place, f"'{name}' meets '{rival}' (against), who is nobody; expected {known}"
        if each.type == "naive_self_play" and against is not None and name not in against:
            yield place, f"'{name}' meets itself alone; leave out its 'against'"
        if name in learning and not _rivals(name, each, players, learning):
            yield place, f"'{name}' is a {each.type} without a second player to meet; add main"


def _rivals(name: str, player: Any, players: Mapping[str, Any], learning: list[str]) -> list[str]:
    """Returns the names of those whom a player can meet, itself if its role allows that."""
    against = getattr(player, "against", None)
    plays_itself = player.type not in ("main_exploiter", "league_exploiter")
    if against is None and plays_itself:
        return [name]
    known = [each for each in ([*players] if against is None else against) if each in players]
    if player.type == "main_exploiter":
        known = [each for each in known if each in learning and each != name]
        return [each for each in known if against or players[each].type == "main"]
    return [each for each in known if each != name or plays_itself]


def _foreign(cfg: RunConfig, players: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of players that are policies of other runs.

    Raises:
        ConfigError: it is the policy of another game, or of other options.
    """
    found: dict[str, Any] = {}
    for name, each in players.items():
        if getattr(each, "run", None) is None:
            continue
        place = f"pipeline.players: '{name}' (run={each.run})"
        try:
            other = find_contestant(each.run)
            check_same_game(Contestant(cfg, "this league", None), other)
        except DicoreError as error:
            raise ConfigError(f"{place}: {error.message}", hint=error.hint) from error
        theirs = bind(other.compiled, spec_of(cfg.env, cfg.seed)).policy if other.by_side else None
        if theirs is None or (theirs.type, theirs.model) != (cfg.policy.type, cfg.policy.model):
            raise ConfigError(
                f"{place}: its policy '{other.compiled.policy.type}' does not have the network of"
                f" this league's '{cfg.policy.type}'",
                hint="expected a run with one_side and the same policy.type and policy.model",
            )
        found[name] = other.state
    return found
