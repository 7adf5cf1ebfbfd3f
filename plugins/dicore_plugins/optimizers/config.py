"""Options of the optimizers, and building one; the learning rate is an option of the policy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import attrs

from dicore.config.schema import ComponentConfig, frozen, option
from dicore.config.sections import LearnConfig
from dicore.errors import UsageError
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore_plugins.optimizers.flat import FlatOptimizer, Params

_EPS = "added to the denominator (numerical stability); raise it if updates are unstable"


def compile_option() -> bool:
    """Returns the option `compile` of the section `learn` of a policy."""
    made: bool = option(
        False,
        "compile the loss for updates (torch.compile): faster for large networks and on GPUs;"
        " the first updates take up to a minute",
    )
    return made


def autocast_option() -> Literal["bfloat16", "auto"] | None:
    """Returns the option `autocast` of the section `learn` of a policy."""
    made: Literal["bfloat16", "auto"] | None = option(
        None,
        "dtype of the matrix products of updates; the parameters stay float32; None: float32."
        " Faster for large networks on GPUs and on CPUs with bfloat16 instructions; auto: where"
        " updates are measured to be 1.2 times as fast",
    )
    return made


@frozen(kw_only=True)
class AdamConfig(ComponentConfig):
    """Adam with one fused call for all layers (Kingma and Ba 2015)."""

    betas: tuple[float, float] = option(
        (0.9, 0.999), "decay rates of the averages of gradient and squared gradient"
    )
    eps: float = option(1e-8, _EPS, ge=0)
    weight_decay: float = option(0.0, "L2 penalty, added to the gradient", ge=0)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields decay rates that are out of range."""
        if not all(0 <= beta < 1 for beta in self.betas):
            yield "betas", f"both must be >= 0 and < 1, got {list(self.betas)}"

    def build(self, ctx: BuildContext | None, *, params: Params, **parts: Any) -> FlatOptimizer:
        """Creates the optimizer of `params`, a `Flat` or parameters."""
        from dicore_plugins.optimizers.flat import FlatAdam

        return FlatAdam(
            params, betas=self.betas, eps=self.eps, weight_decay=self.weight_decay, **parts
        )


@frozen(kw_only=True)
class AdamWConfig(AdamConfig):
    """Adam with decoupled weight decay, fused (Loshchilov and Hutter 2019)."""

    weight_decay: float = option(
        0.01, "fraction of each parameter (times the learning rate) subtracted per update", ge=0
    )

    def build(self, ctx: BuildContext | None, *, params: Params, **parts: object) -> FlatOptimizer:
        """Creates the optimizer of `params`, a `Flat` or parameters."""
        return AdamConfig.build(self, ctx, params=params, decoupled=True, **parts)


@frozen(kw_only=True)
class RMSpropConfig(ComponentConfig):
    """RMSprop: divides the gradient by the root of its running mean square (Hinton 2012)."""

    alpha: float = option(0.99, "decay rate of the average of the squared gradient", ge=0, lt=1)
    eps: float = option(1e-8, _EPS, ge=0)
    weight_decay: float = option(0.0, "L2 penalty, added to the gradient", ge=0)
    momentum: float = option(0.0, "decay rate of accumulated updates; 0: no momentum", ge=0, lt=1)
    centered: bool = option(False, "divide by the estimated standard deviation of the gradient")

    def build(self, ctx: BuildContext | None, *, params: Params, **parts: Any) -> FlatOptimizer:
        """Creates the optimizer of `params`, a `Flat` or parameters."""
        from dicore_plugins.optimizers.flat import FlatRMSprop

        return FlatRMSprop(params, **_own(self), **parts)


@frozen(kw_only=True)
class SGDConfig(ComponentConfig):
    """Stochastic gradient descent, with momentum on request, fused."""

    momentum: float = option(0.0, "decay rate of accumulated gradients; 0: no momentum", ge=0, lt=1)
    nesterov: bool = option(False, "Nesterov momentum; needs momentum > 0")
    weight_decay: float = option(0.0, "L2 penalty, added to the gradient", ge=0)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields options that contradict each other."""
        if self.nesterov and not self.momentum:
            yield "nesterov", "needs momentum > 0"

    def build(self, ctx: BuildContext | None, *, params: Params, **parts: Any) -> FlatOptimizer:
        """Creates the optimizer of `params`, a `Flat` or parameters."""
        from dicore_plugins.optimizers.flat import FlatSGD

        return FlatSGD(params, **_own(self), **parts)


def _own(section: ComponentConfig) -> dict[str, Any]:
    """Returns the options of an optimizer as keyword arguments."""
    return {name: section[name] for name in section.keys() if name != "type"}  # noqa: SIM118


def optimizer_problems(learn: LearnConfig, **options: object) -> Iterator[tuple[str, str]]:
    """Yields (path below `learn`, problem) for settings that the optimizer cannot follow.

    Args:
        learn: The policy's `learn` section, with `learning_rate` and `optimizer`.
        **options: Values by the optimizer's option, from options of the policy; None: not set.
    """
    optimizer: Any = learn.optimizer
    if optimizer is None:
        return
    rate = optimizer.get("lr")
    if rate is not None and rate not in (learn.learning_rate, type(optimizer)().lr):
        yield "optimizer.lr", f"set learn.learning_rate={rate} instead"
    for name, value in options.items():
        if value is not None and name not in optimizer:
            yield "optimizer", f"'{optimizer.type}' has no option '{name}', which learn sets"


def build_optimizer(
    section: ComponentConfig | None,
    params: Params,
    *,
    learning_rate: float,
    max_grad_norm: float | None = None,
    ctx: BuildContext | None = None,
    **options: Any,
) -> FlatOptimizer:
    """Creates the optimizer of a config section (`policy.learn.optimizer`).

    Args:
        section: Section of a component of kind `optimizer`; None: Adam.
        params: A `Flat`, or parameters, of which one is made.
        learning_rate: Step size.
        max_grad_norm: Largest norm of the gradient, clipped above; None: no clipping.
        ctx: Passed to the section's `build`.
        **options: Options of the section to replace; None: keep the section's.

    Raises:
        UsageError: the optimizer lacks one of `options`, or its `step` needs a closure.
    """
    from dicore_plugins.models.flat import Flat
    from dicore_plugins.optimizers.flat import FlatAdam, FlatOptimizer

    flat = params if isinstance(params, Flat) else Flat(params)
    given = {name: value for name, value in options.items() if value is not None}
    if section is None:
        adam = FlatAdam(flat, learning_rate=learning_rate, max_grad_norm=max_grad_norm, **given)
        adam.configured_rate = learning_rate
        return adam
    if lacking := [name for name in given if name not in section]:
        raise UsageError(f"optimizer '{section.type}' has no option {', '.join(lacking)}")
    found = attrs.evolve(section, **given).build(ctx, params=flat)
    if isinstance(found, FlatOptimizer):
        made: FlatOptimizer = found
    else:
        from dicore_plugins.optimizers.foreign import ForeignOptimizer

        made = ForeignOptimizer(flat, found)
    made.learning_rate = made.configured_rate = learning_rate
    made.max_grad_norm = max_grad_norm
    return made


def optimizer_of(learn: LearnConfig, params: Params, **options: Any) -> FlatOptimizer:
    """Creates the optimizer that the `learn` section of a policy describes.

    Args:
        learn: Section with `optimizer` and `learning_rate`, and `max_grad_norm` if gradients may
            be clipped.
        params: A `Flat`, or parameters, of which one is made.
        **options: Options of the optimizer to replace; None: keep the section's.

    Raises:
        UsageError: as `build_optimizer`.
    """
    rate, norm = learn.learning_rate, learn.get("max_grad_norm")
    return build_optimizer(
        learn.optimizer, params, learning_rate=rate, max_grad_norm=norm, **options
    )
