"""What a training step is put together from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.middleware.ckpt_saver import CkptSaver
    from dicore_plugins.middleware.collect import StepCollector, inferencer, rolloutor
    from dicore_plugins.middleware.data import data_pusher, offpolicy_data_fetcher
    from dicore_plugins.middleware.evaluate import interaction_evaluator
    from dicore_plugins.middleware.exploration import eps_greedy_handler
    from dicore_plugins.middleware.learn import OffPolicyLearner, trainer
    from dicore_plugins.middleware.termination import termination_checker
    from dicore_plugins.middleware.profiler import StepTimer
    from dicore_plugins.middleware.transitions import TransitionList

__all__ = [
    "CkptSaver",
    "OffPolicyLearner",
    "StepCollector",
    "StepTimer",
    "TransitionList",
    "data_pusher",
    "eps_greedy_handler",
    "inferencer",
    "interaction_evaluator",
    "offpolicy_data_fetcher",
    "rolloutor",
    "termination_checker",
    "trainer",
]

__getattr__ = lazy(
    __name__,
    {
        "CkptSaver": ".ckpt_saver",
        "OffPolicyLearner": ".learn",
        "StepCollector": ".collect",
        "StepTimer": ".profiler",
        "TransitionList": ".transitions",
        "data_pusher": ".data",
        "eps_greedy_handler": ".exploration",
        "inferencer": ".collect",
        "interaction_evaluator": ".evaluate",
        "offpolicy_data_fetcher": ".data",
        "rolloutor": ".collect",
        "termination_checker": ".termination",
        "trainer": ".learn",
    },
)
