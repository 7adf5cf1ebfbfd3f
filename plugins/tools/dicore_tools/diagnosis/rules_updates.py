"""Rules about gradient updates: how many, how large, and what they do to the networks."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from dicore_tools.diagnosis.evidence import Evidence, Moments
from dicore_tools.diagnosis.finding import Finding, MissingEvidenceError

__all__ = [
    "buffer_small",
    "dead_units",
    "gradients_clipped",
    "gradients_vanish",
    "hardly_any_updates",
    "learning_rate_ended",
    "learning_rate_high",
    "learning_rate_low",
    "loss_explodes",
    "replay_ratio_high",
    "replay_ratio_low",
    "updates_skipped",
]

_RATE: Final = "policy.learn.learning_rate"
_CLIP: Final = "policy.learn.max_grad_norm"
_WARM_UP: Final = "policy.collect.random_collect_size"
_BUFFER: Final = "policy.other.replay_buffer.replay_buffer_size"
_LOSS: Final = ("learner/total_loss",)
_FEW_UPDATES: Final = 500
_LATE: Final = 0.6
_MANY_PER_STEP: Final = 8.0
_MANY_EPOCHS: Final = 60.0
_FEW_USES: Final = 0.25
_JUMP: Final = 0.3
_SMALL: Final = 0.02
_STALLED: Final = 4.0
_CREEP: Final = 0.1
_GROWN: Final = 4.0
_NARROW: Final = 16
_DEAD: Final = 0.9


def hardly_any_updates(run: Evidence) -> Finding | None:
    """Most of the budget is collected with random actions, or it ended before an update."""
    steps = run.env_steps
    if run.updates == 0 and steps > 0 and run.data.state != "running":
        batch = run.option("policy.learn.batch_size")
        return Finding(
            f"no update was made in {steps} env steps; an update takes a batch of {batch}",
            "the run ended before there was enough to learn from",
            (run.change("pipeline.max_env_step", "more"),),
            {"env_steps": float(steps), "updates": 0.0},
        )
    warm_up = run.number(_WARM_UP)
    whole = max(steps, run.budget)
    if steps <= 0 or warm_up < _LATE * whole:
        return None
    return Finding(
        f"the first {warm_up:.0f} env steps are collected with random actions, and the budget is"
        f" {whole:.0f}; {run.updates} updates were made",
        "the warm-up is as long as the budget",
        (run.change(_WARM_UP, f"{0.05 * whole:.0f} or less"),),
        {"random_collect_size": warm_up, "env_steps": float(steps), "updates": float(run.updates)},
    )


def replay_ratio_high(run: Evidence) -> Finding | None:
    """Each sample is used by too many updates."""
    updates, uses = _uses(run)
    if run.on_policy:
        if uses < _MANY_EPOCHS:
            return None
        option, advice = (
            "policy.learn.epoch_per_collect",
            "10 or less, or set policy.learn.target_kl",
        )
    else:
        if updates < _MANY_PER_STEP:
            return None
        option, advice = _per_step(run), "1 update per env step, or a regularised critic"
    return Finding(
        f"{updates:.3g} updates per env step: each sample is used {uses:.0f} times",
        "networks fit what was collected early, and overestimate what was not (primacy bias)",
        (run.change(option, advice),),
        {"updates_per_env_step": updates, "uses_of_a_sample": uses},
        _LOSS,
    )


def replay_ratio_low(run: Evidence) -> Finding | None:
    """Most samples are never used."""
    updates, uses = _uses(run)
    if run.on_policy or uses >= _FEW_USES or run.env_steps < _FEW_UPDATES:
        return None
    return Finding(
        f"an update every {1 / updates:.0f} env steps: a sample is used {uses:.2g} times",
        "most of what is collected is never learned from",
        (run.change(_per_step(run), "more updates per collected sample"),),
        {"updates_per_env_step": updates, "uses_of_a_sample": uses},
    )


def _per_step(run: Evidence) -> str:
    """Returns the option that sets how many updates are made."""
    per_step = run.option("policy.learn.update_per_step") is not None
    return f"policy.learn.update_per_{'step' if per_step else 'collect'}"


def _uses(run: Evidence) -> tuple[float, float]:
    """Returns the updates per env step after the warm-up, and how often a sample is used."""
    if run.option("policy.world_model") is not None or run.env_steps <= 0:
        raise MissingEvidenceError("samples are not those of the environment alone")
    batch = run.number("policy.learn.batch_size")
    steps = run.env_steps - run.option(_WARM_UP, 0)
    if steps <= 0 or run.updates == 0:
        raise MissingEvidenceError("there were no updates")
    updates = run.updates / steps
    return updates, updates * batch


def buffer_small(run: Evidence) -> Finding | None:
    """The replay buffer holds a few batches, or less than a few episodes."""
    size, batch = run.number(_BUFFER), run.number("policy.learn.batch_size")
    if "max_episode_len" in run.option("policy.other.replay_buffer"):
        raise MissingEvidenceError("the capacity of the buffer is a number of episodes")
    steps, _ = run.env_steps, run.networks("target_model")  # those without learn from new samples
    if run.on_policy or size >= steps / 2 or size >= max(10 * batch, 5 * run.episode_length):
        return None
    return Finding(
        f"the replay buffer holds {size:.0f} samples: {size / batch:.1f} batches,"
        f" {size / run.episode_length:.1f} of the longest episodes",
        "batches are correlated, and what was learned before is forgotten",
        (run.change(_BUFFER, f"{max(50 * batch, 10_000):.0f} and more"),),
        {"size": size, "batch_size": batch, "env_steps": float(steps)},
    )


def learning_rate_ended(run: Evidence) -> Finding | None:
    """The learning rate has fallen to nearly nothing long before the training ends."""
    end = run.number(f"{_RATE}_end")
    try:
        option, made = "policy.learn.anneal", run.env_steps
        length = run.number(option)
    except MissingEvidenceError:
        option, made = f"{_RATE}_decay", run.updates
        length = run.number(option)
    if end > _SMALL or made < _STALLED * length:
        return None
    unit = "env steps" if option.endswith("anneal") else "updates"
    return Finding(
        f"the learning rate fell to {end:g} of what it was within {length:.0f} of {made} {unit}",
        "the rest of the training hardly changes the policy",
        (
            run.change(option, f"{made}: the length of the training"),
            run.change(f"{_RATE}_end", "1"),
        ),
        {"learning_rate_end": end, "length": length, unit.replace(" ", "_"): float(made)},
        _LOSS,
    )


def learning_rate_high(run: Evidence) -> Finding | None:
    """An update moves weights by as much as they are initialised with, and they have grown."""
    jump = max(map(_reach, _whole(run)))
    growth = _growth(run)
    if jump < _JUMP or growth < _GROWN:
        return None
    rate = max(each.rate for each in run.optimizers)
    return Finding(
        f"one update moves weights by {jump:.2g} times their initial size; they have grown to"
        f" {growth:.3g} times that",
        f"the learning rate ({rate:.3g}) is too high: Adam moves each weight by about the rate",
        (run.change(_RATE, f"{rate / 100:.1g}: a hundredth, to begin with"),),
        {"learning_rate": rate, "jump": jump, "growth": growth},
        _LOSS,
    )


def learning_rate_low(run: Evidence) -> Finding | None:
    """All updates together could hardly move the weights."""
    ahead = max(run.budget / run.env_steps, 1.0) if run.env_steps else 1.0
    reach = max(_reach(each) * each.steps for each in _whole(run)) * ahead
    if run.updates < _FEW_UPDATES or reach > _CREEP:
        return None
    rate = max(each.rate for each in run.optimizers)
    return Finding(
        f"all updates together move weights by {reach:.2g} of their initial size at most",
        f"the learning rate ({rate:.3g}) is too low: Adam moves a weight by the rate at most",
        (run.change(_RATE, "3e-4 to 3e-3 for small networks"),),
        {"learning_rate": rate, "reach": reach, "updates": float(run.updates)},
        _LOSS,
    )


def _whole(run: Evidence) -> list[Moments]:
    """Returns the optimizers of networks with hidden layers that were not begun anew lately."""
    found = [each for each in run.optimizers if 4 * each.steps > run.updates]
    found = [each for each in found if any(map(_is_hidden, each.square))]
    if not found:
        raise MissingEvidenceError("no optimizer of hidden layers has made most of the updates")
    return found


def _reach(moments: Moments) -> float:
    """Returns how far an update of Adam moves weights, in units of their usual initial size.

    That is 1 / sqrt(3 n) for n inputs (uniform in ±1 / sqrt(n)).
    """
    inputs = [_inputs(each) for each in moments.square if _is_hidden(each)]
    return moments.rate * math.sqrt(3 * float(np.median(inputs)))


def _growth(run: Evidence) -> float:
    """Returns the size of the weights of hidden layers, in units of their usual initial size."""
    layers = [each for each in run.networks().values() if _is_hidden(each)]
    sizes = [math.sqrt(3 * _inputs(each) * float((each**2).mean())) for each in layers]
    if not sizes:
        raise MissingEvidenceError("the policy has no hidden layers")
    return math.exp(float(np.mean(np.log(np.maximum(sizes, 1e-12)))))


def _inputs(weight: npt.NDArray[np.float64]) -> int:
    """Returns the inputs of a unit.

    Args:
        weight: [out, in], [out, in, …], or of networks side by side [E, in, out].
    """
    return weight.shape[1] if weight.ndim == 3 else math.prod(weight.shape[1:])


def _is_hidden(weight: npt.NDArray[np.float64]) -> bool:
    """Returns whether a parameter is the weight of a layer with many units."""
    units = weight.shape[-1] if weight.ndim == 3 else weight.shape[0] if weight.ndim else 0
    return weight.ndim >= 2 and units >= _NARROW and _inputs(weight) > 1


def gradients_clipped(run: Evidence) -> Finding | None:
    """All gradients are cut to a norm that is tiny."""
    limit = run.number(_CLIP)
    norm = max(each.norm for each in run.optimizers)
    if limit > 0.01 or norm < 0.9 * limit:
        return None
    moments = run.optimizers[0]
    typical = float(np.median(np.sqrt(np.concatenate([each.ravel() for each in moments.square]))))
    return Finding(
        f"all gradients are cut to the norm {limit:.3g}",
        "the limit is far below the norm of gradients: each update has the same length, whatever"
        f" its loss, and gradients come near the eps of Adam ({moments.eps:g})",
        (run.change(_CLIP, "0.5 to 10"),),
        {"max_grad_norm": limit, "grad_norm": norm, "gradient_of_a_weight": typical},
        _LOSS,
    )


def gradients_vanish(run: Evidence) -> Finding | None:
    """The gradient is as good as zero."""
    small = [each for each in run.optimizers if each.steps > 100 and each.norm < 1e-6]
    if not small or len(small) < len(run.optimizers):
        return None
    return Finding(
        f"the norm of the gradient is {small[0].norm:.2g}",
        "the loss says nothing: units are saturated or dead, or there is no reward",
        (run.change("policy.model.activation", "another one, or add layer_norm"),),
        {"grad_norm": small[0].norm},
        _LOSS,
    )


def dead_units(run: Evidence) -> Finding | None:
    """Most units of a layer have had no gradient for some hundred updates.

    A unit whose activation is 0 for all samples (ReLU) has the gradient 0: its running average,
    which decays by a tenth per update, has vanished.
    """
    worst, units = 0.0, 0
    for moments in run.optimizers:
        for mean in moments.mean if moments.steps >= _FEW_UPDATES else ():
            if mean.ndim == 1 and mean.size >= _NARROW and np.abs(mean).max() > 0:
                share = float((np.abs(mean) < 1e-9 * np.abs(mean).max()).mean())
                worst, units = max((worst, units), (share, mean.size))
    if worst < _DEAD:
        return None
    return Finding(
        f"{worst:.0%} of the {units} units of a layer have no gradient (dead units)",
        "too large updates have moved their inputs to where the activation is flat: below 0 for"
        " ReLU, far from 0 for tanh",
        (
            run.change(_RATE, "lower it"),
            run.change("policy.model.layer_norm", "true, if the model has the option"),
            run.change("policy.model.activation", "one that is flat nowhere: silu, elu"),
        ),
        {"share": worst, "units": float(units)},
        _LOSS,
    )


def updates_skipped(run: Evidence) -> Finding | None:
    """Updates were skipped, since loss or gradient was not finite."""
    points = run.data.columns.get("learner/skipped_updates")
    if points is None:
        return None  # it is logged if there are any
    skipped = float(points[:, 3].max())
    return Finding(
        f"{skipped:.0f} of {run.updates} updates were skipped: loss or gradient was not finite",
        "values or gradients overflow",
        (run.change(_RATE, "lower it"), run.change(_CLIP, "0.5 to 10")),
        {"skipped": skipped, "updates": float(run.updates)},
        ("learner/skipped_updates", *_LOSS),
    )


def loss_explodes(run: Evidence) -> Finding | None:
    """The loss has grown without end."""
    values = np.abs(run.values("learner/total_loss", at_least=8))
    quarter = len(values) // 4
    first, last = float(np.median(values[:quarter])), float(np.median(values[-quarter:]))
    if last < 1e4 * max(first, 1e-3):
        return None
    return Finding(
        f"the loss has grown from {first:.3g} to {last:.3g}",
        "values diverge: each update makes the targets larger",
        (run.change(_RATE, "lower it"), run.change(_CLIP, "0.5 to 10")),
        {"first": first, "last": last},
        _LOSS,
    )
