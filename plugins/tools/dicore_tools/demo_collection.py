"""Collects samples with a policy that is not trained meanwhile.

Shapes: T steps, N environments, B samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dicore.console import say
from dicore.data import Batch, tree_map
from dicore.errors import UsageError
from dicore.interfaces.env import EnvSpec
from dicore.interfaces.policy import CollectMode, PolicyFacts, Tail
from dicore.run.env_factory import BuildContext, make_env_manager
from dicore.run.random import seeded
from dicore_tools.evaluation.env_states import go_on
from dicore_tools.evaluation.offline.action_probabilities import KINDS, action_log_prob
from dicore_tools.evaluation.offline.recorded import LOG_PROB
from dicore_tools.evaluation.offline.target import bounds_of, distribution_of
from dicore_tools.evaluation.policy_loader import TrainedPolicy

if TYPE_CHECKING:
    from dicore.data import TimestepBatch, Tree
    from dicore.interfaces.collector import ISerialCollector
    from dicore.interfaces.env import Space

__all__ = ["Wanted", "collected"]

_OUTPUTS = ("logit", "mean", "log_std")
"""Outputs of networks that describe how a policy acts."""
_CHANGE_REWARDS = frozenset({"clip_reward", "reward_norm"})
_ATTEMPTS = 20
"""How many times as many episodes as are wanted are tried for `min_return`."""


class Wanted(NamedTuple):
    """What to collect.

    Args:
        n_sample: Number of samples.
        n_episode: Number of whole episodes instead.
        min_return: Least return of an episode that is kept.
        eps: Probability of a random action, of policies with epsilon-greedy exploration.
        greedy: Act as in evaluation.
        single_steps: Steps of any policy, with `next_obs`; False: the policy's samples.
        outputs: Also the outputs of the network; of single steps.
        log_prob: Also the log-probabilities of the actions; of single steps.
    """

    n_sample: int
    n_episode: int | None = None
    min_return: float | None = None
    eps: float = 0.0
    greedy: bool = False
    single_steps: bool = False
    outputs: bool = False
    log_prob: bool = False


def collected(trained: TrainedPolicy, wanted: Wanted) -> tuple[Batch, tuple[Any, Any]]:
    """Collects samples; returns them, and the spaces of the environment.

    Raises:
        UsageError: an option does not fit the policy or another option, or too few episodes reach
            `min_return`.
    """
    compiled = trained.compiled
    _tell_of_rewards(compiled.env)
    kwargs = _acting_options(compiled.policy, wanted)
    with seeded(compiled.seed):
        at_most = wanted.n_sample if wanted.n_episode is None else wanted.n_episode
        manager = make_env_manager(compiled.env, "demo", compiled.seed, at_most=at_most)
        try:
            context = BuildContext(EnvSpec.of(manager), seed=compiled.seed)
            policy, state = trained.build(context)
            if state.policy is not None:
                policy.collect_mode.load_state_dict(state.policy)
                go_on(manager, compiled.env, state.env_states, "collector")
            section = compiled.policy.collect.collector
            mode = _mode_of(policy, wanted)
            if wanted.log_prob:
                _add_log_prob(mode, _chances(policy, compiled.policy, wanted, manager.action_space))
            collector = section.build(context, env_manager=manager, policy=mode)
            data = _enough(collector, wanted, kwargs)
            collector.close()
            return data, (manager.observation_space, manager.action_space)
        finally:
            manager.close()


def _tell_of_rewards(env: Any) -> None:
    """Says that rewards are not those of the environment, if wrappers change them."""
    names = ", ".join(each.type for each in env.env_wrapper if each.type in _CHANGE_REWARDS)
    if names:
        text = (
            f"rewards are saved as {names} gives them; env.env_wrapper=[…] without it saves those"
        )
        say(f"{text} of the environment")


def _acting_options(policy: Any, wanted: Wanted) -> dict[str, Any]:
    """Returns the keyword arguments of acting."""
    if wanted.min_return is not None and (wanted.n_episode is None or not wanted.single_steps):
        raise UsageError(
            "the least return is one of whole episodes in a file",
            hint="dicore collect RUN --episodes 10 --min-return 400 -o demo.npz",
        )
    for given, name in ((wanted.outputs, "outputs"), (wanted.log_prob, "log-probabilities")):
        if given and not wanted.single_steps:
            raise UsageError(f"{name} are written to a file", hint="-o demo.npz")
    has_eps = "eps" in policy.other
    if wanted.eps and not has_eps:
        raise UsageError(f"policy '{policy.type}' has no epsilon", hint="omit eps")
    if wanted.eps and wanted.greedy:
        raise UsageError("greedy actions have no epsilon", hint="omit eps, or greedy")
    return {"eps": wanted.eps} if has_eps and not wanted.greedy else {}


def _enough(collector: ISerialCollector, wanted: Wanted, kwargs: dict[str, Any]) -> Batch:
    """Collects until there are as many samples or episodes as are wanted."""
    if wanted.n_episode is None:
        data: Batch = collector.collect_batch(n_sample=wanted.n_sample, policy_kwargs=kwargs)
        return data
    count, least = wanted.n_episode, wanted.min_return
    kept: list[Batch] = []
    tried, best = 0, -np.inf
    while len(kept) < count and tried < _ATTEMPTS * count:
        data = collector.collect_batch(n_episode=count, policy_kwargs=kwargs)
        if least is None:
            return data
        tried += count
        ends = np.flatnonzero(np.asarray(data["end"])) + 1
        for start, stop in zip([0, *ends[:-1]], ends, strict=True):
            total = float(np.sum(data["reward"][start:stop]))
            best = max(best, total)
            if total >= least:
                kept.append(data[start:stop])
    if len(kept) < count:
        raise UsageError(
            f"{len(kept)} of {tried} episodes have a return of at least {least:g}; the best has"
            f" {best:g}",
            hint="lower --min-return, or train the policy for longer",
        )
    return Batch.concat(kept[:count])


def _mode_of(policy: Any, wanted: Wanted) -> Any:
    """Returns the functions that act and make samples."""
    mode: Any = policy.collect_mode
    functions = {name: getattr(mode, name, None) for name in CollectMode._fields}
    if wanted.greedy:
        functions |= {
            "forward": lambda obs, **_: policy.eval_mode.forward(obs),
            "reset": policy.eval_mode.reset,
        }
    if wanted.single_steps:
        names = _OUTPUTS if wanted.outputs else ()
        functions |= {
            "process_transition": lambda *args: _step(names, *args),
            "get_train_sample": _steps,
            "get_attribute": lambda name: (
                PolicyFacts() if name == "facts" else mode.get_attribute(name)
            ),
        }
    elif not wanted.greedy:
        return mode
    return SimpleNamespace(**{name: each for name, each in functions.items() if each is not None})


def _chances(
    policy: Any, section: Any, wanted: Wanted, space: Space
) -> Callable[[Tree, Mapping[str, Tree]], Tree]:
    """Returns what computes the log-probabilities of chosen actions, of observations and outputs.

    Raises:
        UsageError: the actions of the policy have none.
    """
    kind = "greedy" if wanted.greedy else distribution_of(policy.collect_mode)
    bounds = bounds_of(space, scaled=bool(section.get("action_scaling", True)))
    if kind not in KINDS or (kind == "greedy" and bounds is not None):
        raise UsageError(
            f"policy '{section.type}' does not draw its actions from a distribution that it tells"
            f" ({kind or 'none'}): they have no log-probabilities",
            hint="omit log_prob; dicore eval --offline then estimates by fqe",
        )
    start = int(getattr(space, "start", 0))

    def chance(obs: Tree, output: Mapping[str, Tree]) -> Tree:
        action = np.asarray(output["action"])
        return action_log_prob(
            kind, output, action, obs=obs, eps=wanted.eps, start=start, bounds=bounds
        )

    return chance


def _add_log_prob(mode: Any, chance: Callable[[Tree, Mapping[str, Tree]], Tree]) -> None:
    """Makes steps have the column `log_prob`."""
    step = mode.process_transition
    mode.process_transition = lambda obs, output, timestep: {
        **step(obs, output, timestep), LOG_PROB: chance(obs, output)
    }  # fmt: skip


def _step(
    names: tuple[str, ...], obs: Tree, output: Tree, timestep: TimestepBatch
) -> dict[str, object]:
    """Selects the columns of one step of all environments."""
    missing = [name for name in names if isinstance(output.get(name), list | tuple)]
    if missing or (names and not any(name in output for name in names)):
        raise UsageError(
            "the outputs of this policy are no distribution of one action",
            hint="omit outputs, or collect with a policy that returns logit, or mean and log_std",
        )
    return {
        "obs": obs,
        "action": output["action"],
        "reward": timestep.reward,
        "done": getattr(timestep, "terminated", timestep.done),
        "next_obs": timestep.obs,
        **{name: output[name] for name in names if name in output},
    }


def _steps(block: Batch, tail: Tail | None = None) -> Batch:
    """Flattens a block [T, N, ...] to steps [B, ...], without those that are not valid."""
    columns = {key: each for key, each in block.items() if key != "valid"}
    count = block["end"].size
    flat = tree_map(lambda leaf: leaf.reshape(count, *leaf.shape[2:]), columns)
    samples = Batch({**flat, "done": flat["done"].astype(np.float32)}, count)
    valid = block.get("valid")
    return samples if valid is None else samples[np.flatnonzero(valid.reshape(-1))]
