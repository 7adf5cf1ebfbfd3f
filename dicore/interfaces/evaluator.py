"""The evaluator role: runs whole episodes with the eval mode and checks the stop rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dicore.values import Info, State, StateDict, Tree
from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    from dicore.interfaces.env_manager import IEnvManager
    from dicore.interfaces.policy import EvalMode

KIND = Kind(
    name="evaluator",
    summary="evaluates a policy over whole episodes",
    contract="dicore.interfaces.evaluator:ISerialEvaluator",
    section="policy.eval.evaluator",
    suite="dicore.testing.evaluator:EvaluatorContract",
    use="dicore train -e cartpole -p dqn policy.eval.evaluator={name}",
)


@dataclass(frozen=True, slots=True)
class EvalResult:
    """Result of an evaluation; unpacks as `stop, returns = result`.

    Args:
        stop: Whether the stop rule holds.
        returns: Undiscounted return of each episode; arrays if rewards are.
        statistics: `mean std max min median episode_count step_count seconds …` by name.
        episode_info: The last info of each episode.
        episodes_per_env: Number of episodes of each environment.
        interrupted: `should_stop` ended the evaluation; the result is not to be recorded.
    """

    stop: bool
    returns: list[Tree]
    statistics: dict[str, float] = field(default_factory=dict)
    episode_info: list[Info] = field(default_factory=list)
    episodes_per_env: list[int] = field(default_factory=list)
    interrupted: bool = False

    @property
    def mean_return(self) -> float:
        """Mean over the episodes."""
        return self.statistics["return_mean"]

    def __iter__(self) -> Iterator[bool | list[Tree]]:
        return iter((self.stop, self.returns))


@runtime_checkable
class ISerialEvaluator(Contract, Protocol):
    """Evaluates in the calling process, without side effects on training."""

    best_return: float
    """Highest mean return so far; -inf before the first evaluation."""
    last_result: EvalResult | None
    """Result of the latest evaluation."""

    def should_eval(self, train_iter: int) -> bool:
        """Returns whether an evaluation is due: at 0, then once per interval."""

    def eval(
        self,
        save_ckpt_fn: Callable[[str], object] | None = None,
        train_iter: int = -1,
        envstep: int = -1,
        n_episode: int | None = None,
        *,
        should_stop: Callable[[], bool] | None = None,
        policy_kwargs: Mapping[str, object] | None = None,
    ) -> EvalResult:
        """Runs `n_episode` episodes; calls `save_ckpt_fn('ckpt_best.pth.tar')` on a new best.

        `should_stop` is called between steps; once it is True, the result is `interrupted`, and the
        evaluation is due again, from the same state. `policy_kwargs` go to the policy's forward.
        """

    def reset_env(self, env: IEnvManager | None = None) -> None: ...

    def reset_policy(self, policy: EvalMode | None = None) -> None: ...

    def reset(self, policy: EvalMode | None = None, env: IEnvManager | None = None) -> None: ...

    def state_dict(self) -> StateDict: ...

    def load_state_dict(self, state: State) -> None: ...

    def close(self) -> None: ...
