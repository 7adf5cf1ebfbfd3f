"""Middleware: the steps that a training loop consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.middleware.callbacks import (
        CkptSaver,
        interaction_evaluator,
        termination_checker,
    )
    from dicore_plugins.middleware.collect import (
        StepCollector,
        TransitionList,
        eps_greedy_handler,
        inferencer,
        rolloutor,
    )
    from dicore_plugins.middleware.learn import (
        OffPolicyLearner,
        data_pusher,
        offpolicy_data_fetcher,
        trainer,
    )
    from dicore_plugins.middleware.profiler import StepTimer

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
        "CkptSaver": ".callbacks",
        "OffPolicyLearner": ".learn",
        "StepCollector": ".collect",
        "StepTimer": ".profiler",
        "TransitionList": ".collect",
        "data_pusher": ".learn",
        "eps_greedy_handler": ".collect",
        "inferencer": ".collect",
        "interaction_evaluator": ".callbacks",
        "offpolicy_data_fetcher": ".learn",
        "rolloutor": ".collect",
        "termination_checker": ".callbacks",
        "trainer": ".learn",
    },
)
