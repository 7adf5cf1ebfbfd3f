"""Decision transformer (Chen et al. 2021, arXiv:2106.01345).

Learns the recorded actions, given the return that followed them. Acting, it is given the return
that is wanted, less the rewards since the start of the episode; an evaluator reports these by
`eval_mode.observe`. Without reports the wanted return stays as it was.

Shapes: K environments, B sequences, L steps, A actions or dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, State, StateDict, Tree, tree_map, tree_stack
from dicore.errors import SchemaError, UsageError
from dicore.interfaces.policy import Tail
from dicore_plugins.functional.exploration import greedy, mask_of, opened
from dicore_plugins.functional.samples import to_batch
from dicore_plugins.models.flat import Flat
from dicore_plugins.optimizers.config import optimizer_of
from dicore_plugins.policies.base import Policy, Samples, load_model_state, model_state
from dicore_plugins.policies.compiled import for_updates
from dicore_plugins.policies.offline.dt_config import DTConfig
from dicore_plugins.policies.offline.dt_history import History
from dicore_plugins.policies.outputs import output_shapes, zeros_for
from dicore_plugins.policies.unit_actions import UnitActions

_METHODS = ("steps", "learn_returns", "wanted")
"""What a network must have."""
_NEEDED = ("obs", "action", "return_to_go", "timestep", "valid")


class DTEvalMode(NamedTuple):
    """The functions of `EvalMode`, and `observe(env_id, reward)`, called after each env step."""

    forward: Callable[[EnvBatch[Any]], Any]
    reset: Callable[..., None]
    get_attribute: Callable[[str], Any]
    set_attribute: Callable[[str, Any], None]
    state_dict: Callable[[], dict[str, Any]]
    load_state_dict: Callable[[Mapping[str, Any]], None]
    observe: Callable[[Any, Any], None]


class DTPolicy(Policy):
    """A causal transformer that imitates the actions of episodes with the return that is wanted."""

    config_class: ClassVar[type[PolicyConfig]] = DTConfig
    _cfg: DTConfig
    attributes: ClassVar[tuple[str, ...]] = ("flat", "optimizer")
    export_problem: ClassVar[str] = "it acts on the last steps of an episode"

    def _checked_model(self, model: nn.Module) -> nn.Module:
        model = super()._checked_model(model)
        problem: str | None = (
            f"{type(model).__name__} is not a network with steps, learn_returns and wanted"
        )
        if isinstance(model, nn.Module) and all(hasattr(model, name) for name in _METHODS):
            problem = self._problem_of(model)
        if problem is None:
            return model
        raise UsageError(
            f"model: {problem}", hint="pass a module like that of policy.model.type=dt"
        )

    def _problem_of(self, model: nn.Module) -> str | None:
        """Returns how the outputs of a network differ from those that are needed, or None."""
        options: Any = self._cfg.model
        obs, width = zeros_for(options, 6), options.get("action_shape")
        if obs is None:
            return None
        number = torch.zeros(2, 3, dtype=torch.int64)
        action = torch.zeros(2, 3, width) if options.get("continuous") else number
        inputs = obs.unflatten(0, (2, 3)), action, torch.zeros(2, 3), number
        found = output_shapes(model, *inputs, method="steps")
        wanted = {"mean" if options.get("continuous") else "logit": [2, 3, width]}
        if found in (None, wanted):
            return None
        return f"{type(model).__name__}.steps returns {found} for [2, 3] steps; expected {wanted}"

    # ---- learn

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._flat = Flat(self._model.to(self._device))
        self._optimizer = optimizer_of(learn, self._flat)
        self._steps = for_updates(self._model.steps, learn, self._device)

    def _forward_learn(self, data: Samples, **_: object) -> Columns:
        """Runs one gradient update.

        Args:
            data: B sequences: obs [B, L, ...], action, return_to_go, timestep, and valid, the steps
                that count.

        Returns:
            `total_loss`, the mean over the steps of the cross-entropy, or of the squared error.

        Raises:
            SchemaError: a column is missing.
        """
        batch = to_batch(data, self._device)
        missing = [name for name in _NEEDED if name not in batch]
        if missing:
            raise SchemaError(
                f"dt learns from sequences of {', '.join(_NEEDED)}: no {', '.join(missing)}",
                hint='set pipeline.dataset.derived=["return_to_go","timestep"] and'
                " pipeline.dataset.unroll_len to policy.collect.unroll_len",
            )
        if not self._flat.intact():
            self._flat.rebind()
        counts, returns = batch["valid"].bool(), batch["return_to_go"].float()
        timestep = batch["timestep"].long()
        self._model.learn_returns(returns[counts], timestep[counts])
        norm = getattr(self._model, "obs_norm", None)
        if norm is not None:
            seen = tree_map(lambda leaf: leaf[counts], batch["obs"])
            norm.update(self._model.encode.vector(seen))
        action = self._unit(batch["action"])
        output = self._steps(batch["obs"], action, returns, timestep)
        loss = self._error(output, action, mask_of(batch["obs"]))[counts].mean()
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step(loss)
        return {"cur_lr": self._optimizer.learning_rate, "total_loss": loss.detach()}

    def _error(self, output: Mapping[str, Tensor], action: Tensor, mask: Tree) -> Tensor:
        """Computes the loss of each step: float32 [B, L]."""
        if "mean" in output:
            return (output["mean"].tanh() - action).square().mean(-1)
        logit = output["logit"]
        if mask is not None:
            logit = logit.masked_fill(~opened(mask), -1e8)
        flat = functional.cross_entropy(logit.flatten(0, 1), action.flatten(), reduction="none")
        return flat.view(action.shape)

    @cached_property
    def _actions(self) -> UnitActions | None:
        """Scales continuous actions; None for discrete ones."""
        return None if self._cfg.action_low is None else UnitActions(self._cfg, self._device)

    def _unit(self, action: Tensor) -> Tensor:
        """Returns indices from 0 [B, L], or actions in [-1, 1] [B, L, A]."""
        if self._actions is None:
            start: int = self._cfg.action_start
            return action.long().reshape(action.shape[:2]) - start
        return self._actions.unit(action.flatten(2))

    def _get_skipped_updates(self) -> int:
        return int(self._optimizer.skipped)

    def _state_dict_learn(self) -> StateDict:
        return {"model": model_state(self._model), "optimizer": self._optimizer.state_dict()}

    def _load_state_dict_learn(self, state: State) -> None:
        load_model_state(self._model, state["model"])
        self._optimizer.load_state_dict(state["optimizer"])

    # ---- collect and eval

    def _init_collect(self) -> None:
        self._collect_history = self._new_history()

    def _init_eval(self) -> None:
        self._eval_history = self._new_history()

    def _new_history(self) -> History:
        if "learn" not in self._enabled:
            self._model.to(self._device)
        no_action: Any = 0
        if self._actions is not None:
            no_action = np.zeros(self._actions.size, np.float32)
        return History(self._cfg.collect.unroll_len, no_action)

    def _make_eval_mode(self) -> Any:
        mode = super()._make_eval_mode()
        return DTEvalMode(*mode, observe=self._eval_history.paid)

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        return self._act(self._eval_history, EnvBatch.of(obs))

    def _forward_collect(self, obs: Mapping[int, Tree], **unknown: object) -> EnvBatch[Columns]:
        """Acts as in evaluation.

        Raises:
            UsageError: a keyword argument is passed.
        """
        if unknown:
            raise UsageError(f"unknown argument '{min(unknown)}' of the collect mode of {self}")
        return self._act(self._collect_history, EnvBatch.of(obs))

    def _act(self, history: History, batch: EnvBatch[Any]) -> EnvBatch[Columns]:
        seen = history.seen(batch.env_id, batch.value, self._wanted())
        last = seen.pop("last")

        def tensor(leaf: Tree) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(leaf)).to(self._device)

        with torch.inference_mode():
            output = self._model.steps(**tree_map(tensor, seen))
        (found,) = (each.cpu().numpy() for each in output.values())
        chosen = found[np.arange(len(last)), last]
        if self._actions is None:
            mask = mask_of(batch.value)
            unit = greedy(chosen, None if mask is None else opened(np.asarray(mask)))
            action = unit + self._cfg.action_start
        else:
            unit = np.tanh(chosen)
            action = self._actions.env(unit)
        history.acted(batch.env_id, unit)
        return batch.with_value({"action": action})

    def _wanted(self) -> float:
        """Returns the return that an episode is to reach."""
        target = self._cfg.eval.target_return
        return float(self._model.wanted if target is None else target)

    def _reset_collect(self, data_id: Sequence[int] | None = None) -> None:
        self._collect_history.reset(data_id)

    def _reset_eval(self, data_id: Sequence[int] | None = None) -> None:
        self._eval_history.reset(data_id)

    def _get_sample_len(self) -> Literal["episode"]:
        return "episode"

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Converts whole episodes, a block [T, N, ...], to sequences of L steps."""
        self._need_one_reward(block)
        length, pieces = self._cfg.collect.unroll_len, []
        for env in range(block["end"].shape[1]):
            ends = np.flatnonzero(block["end"][:, env])
            for start, stop in zip(np.append(0, ends[:-1] + 1), ends + 1, strict=True):
                pieces += self._windows(block, env, int(start), int(stop), length)
        return Batch(dict(tree_stack(pieces)), len(pieces))

    def _windows(
        self, block: Batch, env: int, start: int, stop: int, length: int
    ) -> list[dict[str, Any]]:
        """Returns the sequences of one episode, one after the other, the last one padded."""
        reward = np.asarray(block["reward"][start:stop, env], np.float64)
        columns = {
            "return_to_go": reward[::-1].cumsum()[::-1].astype(np.float32),
            "timestep": np.arange(stop - start),
            "valid": np.ones(stop - start, np.bool_),
        }
        for key in ("obs", "action"):
            columns[key] = tree_map(lambda leaf: np.asarray(leaf)[start:stop, env], block[key])
        found = []
        for first in range(0, stop - start, length):
            piece = tree_map(lambda leaf, at=first: leaf[at : at + length], columns)
            found.append(tree_map(lambda leaf: _padded(leaf, length), piece))
        return found


def _padded(leaf: Tree, length: int) -> Tree:
    """Fills up [T, ...] with zeros to L steps."""
    missing = length - len(leaf)
    return (
        np.concatenate((leaf, np.zeros((missing, *leaf.shape[1:]), leaf.dtype)))
        if missing
        else leaf
    )
