"""Optimizers on one flat tensor: one call for all layers, without `torch._dynamo`.

The import of `torch._dynamo` by `torch.optim` takes over a second. An update with a non-finite loss
or gradient is skipped on the device, without synchronisation.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.rmsprop import rmsprop
from torch.optim.sgd import sgd
from torch.utils.hooks import RemovableHandle

from dicore.errors import CheckpointError, UsageError
from dicore.values import State, StateDict
from dicore_plugins.models.flat import Flat

_SWEEP_EVERY, _MIN_MEAN, _MIN_SQUARE = 100, 1e-30, 1e-36
"""Updates between sweeps, and the averages (of gradient and square) below which a sweep zeroes."""

Params = Flat | Iterable[nn.Parameter]


class FlatOptimizer:
    """Base class of optimizers of flat parameters; a subclass has the update rule.

    A rule with moments names them in `moments`, in the order of its functions' arguments. It
    implements `_unfused`, and `_fused` where torch has a fused operation.

    Args:
        params: A `Flat`; or parameters, of which one is made.
        learning_rate: Step size.
        max_grad_norm: Largest norm of the gradient, clipped above; None: no clipping.
        **options: Options of the rule, as torch names them.

    Attributes:
        param_groups: One group as in `torch.optim`: `params`, `lr` and the options of the rule;
            a schedule may set them before `step`.
        max_grad_norm: See the argument.

    Raises:
        UsageError: a number is out of range.
    """

    configured_rate: float | None = None
    """Learning rate of the config; set by `build_optimizer`."""
    moments: ClassVar[tuple[str, ...]] = ()
    """Names of the running averages of the rule."""

    def __init__(
        self, params: Params, learning_rate: float, max_grad_norm: float | None, **options: object
    ) -> None:
        self._check(lr=learning_rate, max_grad_norm=max_grad_norm, **options)
        self.max_grad_norm = max_grad_norm
        self._flat = flat = params if isinstance(params, Flat) else Flat(params)
        data = flat.data
        self.param_groups: list[dict[str, Any]] = [
            {"params": list(flat.parameters), "lr": learning_rate, **options}
        ]
        self._hooks: OrderedDict[int, Callable[..., object]] = OrderedDict()
        self._calls = 0
        self._moments = [torch.zeros_like(data) for _ in self.moments]
        self._steps = torch.zeros((), dtype=torch.float32, device=data.device)
        self._bad = torch.zeros_like(self._steps)
        self._good = torch.zeros_like(self._steps)
        self._update = self._fused if self._fused_works(data) else self._kept_if_finite

    @property
    def flat(self) -> Flat:
        """The parameters and their gradient."""
        return self._flat

    @property
    def learning_rate(self) -> float:
        """Step size."""
        rate: float = self.param_groups[0]["lr"]
        return rate

    @learning_rate.setter
    def learning_rate(self, rate: float) -> None:
        for group in self.param_groups:
            group["lr"] = rate

    def zero_grad(self) -> None:
        """Sets the gradient to zero."""
        self._flat.zero_grad()

    def register_step_pre_hook(self, hook: Callable[..., object]) -> RemovableHandle:
        """Calls `hook(optimizer, args, kwargs)` in every `step`, before clipping.

        It may change the gradients in place (`group["params"][i].grad`), for instance average them
        over several learners.

        Returns:
            A handle whose `remove()` unregisters the hook.
        """
        handle = RemovableHandle(self._hooks)
        self._hooks[handle.id] = hook
        return handle

    def step(self, loss: Tensor | None = None) -> None:
        """Updates the parameters; skips the update if loss or gradient is not finite.

        Args:
            loss: A scalar to check as well; it may be infinite although its gradient is finite.
        """
        if self._hooks:
            for hook in tuple(self._hooks.values()):
                hook(self, (loss,), {})
        flat = self._flat
        grad = flat.grad
        probe = torch.dot(grad, grad)
        if self.max_grad_norm is not None:
            grad.mul_(probe.rsqrt().mul_(self.max_grad_norm).clamp_(max=1.0))
        if loss is not None:
            probe = probe + loss.detach()
        # 0 for a finite probe, else nan, which is not equal to itself. Comparing two tensors takes
        # a third of the time of comparing with a number, which torch would wrap first.
        odd = probe - probe
        torch.ne(odd, odd, out=self._bad)
        torch.eq(odd, odd, out=self._good)
        self._calls += 1
        self._steps.add_(self._good)
        self._update(flat.data, grad)
        if self._calls % _SWEEP_EVERY == 0:
            self._sweep()

    def _sweep(self) -> None:
        """Zeroes averages that are too small to change a parameter.

        The averages of a gradient that stays zero (a dead unit) decay to subnormal numbers, on
        which processors are ten times slower.
        """
        if self.param_groups[0].get("eps") == 0:
            return
        for name, moment in zip(self.moments, self._moments, strict=True):
            if "sq" in name:
                F.threshold_(moment, _MIN_SQUARE, 0.0)  # type: ignore[attr-defined] # public
            else:
                moment.copy_(F.hardshrink(moment, _MIN_MEAN))

    @property
    def skipped(self) -> int:
        """Number of updates skipped for a non-finite loss or gradient; synchronises."""
        return self._calls - int(self._steps.item())

    @property
    def counts(self) -> tuple[int, int]:
        """Number of updates, and of those that were skipped; synchronises."""
        return self._calls, self.skipped

    # ---- the rule

    def _fused(self, data: Tensor, grad: Tensor) -> None:
        raise NotImplementedError

    def _unfused(self, data: Tensor, grad: Tensor, *moments: Tensor) -> None:
        raise NotImplementedError

    def _kept_if_finite(self, data: Tensor, grad: Tensor) -> None:
        """Applies the rule to copies; keeps them if all is finite."""
        state = (data, *self._moments)
        new = tuple(each.clone() for each in state)
        self._unfused(new[0], grad, *new[1:])
        bad = self._bad.bool()
        for kept, changed in zip(state, new, strict=True):
            torch.where(bad, kept, changed, out=kept)

    def _fused_works(self, like: Tensor) -> bool:
        """Tries the fused operation on one element of the same dtype and device."""
        real = self._moments, self._steps
        one = like.new_zeros(1)
        self._moments, self._steps = [one.clone() for _ in self.moments], torch.ones_like(self._bad)
        try:
            self._fused(one.clone(), one)
        except (AttributeError, NotImplementedError, RuntimeError, TypeError):
            return False
        finally:
            self._moments, self._steps = real
        return True

    @classmethod
    def _check(cls, **options: Any) -> None:
        rates = [options[name] for name in ("alpha", "momentum") if name in options]
        decay, clip = options.get("weight_decay", 0.0), options["max_grad_norm"]
        wrong = {
            "learning_rate > 0": options["lr"] > 0 and math.isfinite(options["lr"]),
            "0 <= betas < 1": all(0 <= beta < 1 for beta in options.get("betas", ())),
            "0 <= alpha, momentum < 1": all(0 <= rate < 1 for rate in rates),
            "eps >= 0": options.get("eps", 0.0) >= 0,
            "weight_decay >= 0": decay >= 0,
            "max_grad_norm > 0": clip is None or clip > 0,
        }
        for condition, holds in wrong.items():
            if not holds:
                raise UsageError(f"{cls.__name__} requires {condition}")

    # ---- state

    def state_dict(self) -> StateDict:
        """Returns copies in the format of `torch.optim`, one entry per parameter."""
        state: dict[int, dict[str, Tensor]] = {
            index: {"step": self._steps.clone()} for index in range(len(self._flat.parameters))
        }
        for name, moment in zip(self.moments, self._moments, strict=True):
            for index, piece in enumerate(self._flat.split(moment)):
                state[index][name] = piece.clone()
        group = {**self.param_groups[0], "params": list(range(len(state)))}
        return {
            "state": state,
            "param_groups": [group],
            "skipped": self.skipped,
            "configured_rate": self.configured_rate,
        }

    def load_state_dict(self, state: State) -> None:
        """Restores moments, step count and learning rate from this class or its torch twin.

        The learning rate stays if the saved optimizer has another `configured_rate`.

        Raises:
            CheckpointError: the state belongs to other parameters or to another rule.
        """
        entries = {int(index): entry for index, entry in state["state"].items()}
        self._check_state(entries)
        for name, moment in zip(self.moments, self._moments, strict=True):
            for index, piece in enumerate(self._flat.split(moment)):
                piece.copy_(torch.as_tensor(entries[index][name])) if entries else piece.zero_()
        steps = float(entries[0].get("step", 0)) if entries else 0.0
        self._steps.fill_(steps)
        self._calls = int(steps) + int(state.get("skipped", 0))
        if not self._is_reconfigured(state):
            self.learning_rate = float(state["param_groups"][0]["lr"])

    def _is_reconfigured(self, state: State) -> bool:
        """Returns whether a run was resumed with another learning rate in its config."""
        before = state.get("configured_rate")
        return None not in (before, self.configured_rate) and before != self.configured_rate

    def _check_state(self, entries: Mapping[int, Mapping[str, Any]]) -> None:
        for name in self.moments if entries else ():
            lacking = [index for index, entry in entries.items() if entry.get(name) is None]
            if lacking:
                has = ", ".join(entries[lacking[0]])
                raise CheckpointError(
                    f"the optimizer state has {has}; {type(self).__name__} needs {name}",
                    hint="load it with the optimizer that saved it: policy.learn.optimizer",
                )
            found = [tuple(entries[index][name].shape) for index in sorted(entries)]
            shapes = [tuple(parameter.shape) for parameter in self._flat.parameters]
            if found != shapes:
                raise CheckpointError(
                    f"the optimizer state has parameters {found}, expected {shapes}"
                )


class FlatAdam(FlatOptimizer):
    """Adam (Kingma and Ba 2015, arXiv:1412.6980), or AdamW.

    Args:
        params: See `FlatOptimizer`.
        learning_rate: Step size.
        betas: Decay rates of the averages of gradient and squared gradient, in [0, 1).
        eps: Added to the root of the squared average for numerical stability.
        weight_decay: L2 penalty, added to the gradient.
        max_grad_norm: See `FlatOptimizer`.
        decoupled: AdamW (Loshchilov and Hutter 2019, arXiv:1711.05101): subtract the fraction
            `weight_decay` (times the learning rate) of each parameter instead.
    """

    moments = ("exp_avg", "exp_avg_sq")

    def __init__(
        self,
        params: Params,
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        max_grad_norm: float | None = None,
        *,
        decoupled: bool = False,
    ) -> None:
        self._decoupled = decoupled
        operation = "_fused_adamw_" if decoupled else "_fused_adam_"
        self._operation = getattr(torch, operation, None)
        options = {"betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": False}
        super().__init__(params, learning_rate, max_grad_norm, **options)

    def _fused(self, data: Tensor, grad: Tensor) -> None:
        group, (mean, square) = self.param_groups[0], self._moments
        beta1, beta2 = group["betas"]
        self._operation(  # type: ignore[misc]
            [data],
            [grad],
            [mean],
            [square],
            [],
            [self._steps],
            lr=group["lr"],
            beta1=beta1,
            beta2=beta2,
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            amsgrad=False,
            maximize=False,
            found_inf=self._bad,
        )

    def _unfused(self, data: Tensor, grad: Tensor, *moments: Tensor) -> None:
        group = self.param_groups[0]
        beta1, beta2 = group["betas"]
        adam(
            [data], [grad], [moments[0]], [moments[1]], [], [self._steps - self._good],
            foreach=False, fused=False, decoupled_weight_decay=self._decoupled, amsgrad=False,
            beta1=beta1, beta2=beta2, lr=group["lr"], weight_decay=group["weight_decay"],
            eps=group["eps"], maximize=False,
        )  # fmt: skip


class FlatRMSprop(FlatOptimizer):
    """RMSprop, the rule of `torch.optim.RMSprop`.

    Args:
        params: See `FlatOptimizer`.
        learning_rate: Step size.
        alpha: Decay rate of the average of the squared gradient, in [0, 1).
        eps: Added to the root of that average for numerical stability.
        weight_decay: L2 penalty, added to the gradient.
        momentum: Decay rate of accumulated updates, in [0, 1); 0: no momentum.
        centered: Subtract the squared average of the gradient from that of its square.
        max_grad_norm: See `FlatOptimizer`.
    """

    def __init__(
        self,
        params: Params,
        learning_rate: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        *,
        centered: bool = False,
        max_grad_norm: float | None = None,
    ) -> None:
        used = {"square_avg": True, "grad_avg": centered, "momentum_buffer": momentum > 0}
        self.moments = tuple(name for name in used if used[name])  # type: ignore[misc]
        options = {"alpha": alpha, "eps": eps, "weight_decay": weight_decay}
        super().__init__(
            params, learning_rate, max_grad_norm, **options, momentum=momentum, centered=centered
        )

    def _unfused(self, data: Tensor, grad: Tensor, *moments: Tensor) -> None:
        group, named = self.param_groups[0], dict(zip(self.moments, moments, strict=True))
        average, buffer = (
            [named[name]] if name in named else [] for name in ("grad_avg", "momentum_buffer")
        )
        rmsprop(
            [data], [grad], [moments[0]], average, buffer, [self._steps - self._good],
            foreach=False, lr=group["lr"], alpha=group["alpha"], eps=group["eps"],
            weight_decay=group["weight_decay"], momentum=group["momentum"],
            centered=group["centered"],
        )  # fmt: skip


class FlatSGD(FlatOptimizer):
    """Stochastic gradient descent, the rule of `torch.optim.SGD`.

    Args:
        params: See `FlatOptimizer`.
        learning_rate: Step size.
        momentum: Decay rate of accumulated gradients, in [0, 1); 0: no momentum.
        nesterov: Nesterov momentum.
        weight_decay: L2 penalty, added to the gradient.
        max_grad_norm: See `FlatOptimizer`.
    """

    def __init__(
        self,
        params: Params,
        learning_rate: float = 1e-3,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        *,
        nesterov: bool = False,
        max_grad_norm: float | None = None,
    ) -> None:
        self.moments = ("momentum_buffer",) if momentum > 0 else ()  # type: ignore[misc]
        options = {"momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
        super().__init__(params, learning_rate, max_grad_norm, dampening=0.0, **options)

    def _fused(self, data: Tensor, grad: Tensor) -> None:
        group = self.param_groups[0]
        torch._fused_sgd_(
            [data], [grad], self._moments, weight_decay=group["weight_decay"],
            momentum=group["momentum"], lr=group["lr"], dampening=0.0, nesterov=group["nesterov"],
            maximize=False, is_first_step=False, found_inf=self._bad,
        )  # fmt: skip

    def _unfused(self, data: Tensor, grad: Tensor, *moments: Tensor) -> None:
        group = self.param_groups[0]
        sgd(
            [data], [grad], list(moments) or [None], foreach=False, fused=False,
            weight_decay=group["weight_decay"], momentum=group["momentum"], lr=group["lr"],
            dampening=0.0, nesterov=group["nesterov"], maximize=False,
        )  # fmt: skip
