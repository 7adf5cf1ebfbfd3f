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
        settings_handler,
    )
    from dicore_plugins.middleware.demonstrations import demo_loader, pretrainer, sqil_data_pusher
    from dicore_plugins.middleware.hindsight import HERLearner, her_data_enhancer
    from dicore_plugins.middleware.learn import (
        OffPolicyLearner,
        data_pusher,
        multistep_trainer,
        offline_data_fetcher,
        offpolicy_data_fetcher,
        reward_model_trainer,
        trainer,
    )
    from dicore_plugins.middleware.profiler import StepTimer
    from dicore_plugins.middleware.world_models import WorldModelLearner

__all__ = [
    "CkptSaver",
    "HERLearner",
    "OffPolicyLearner",
    "StepCollector",
    "StepTimer",
    "TransitionList",
    "WorldModelLearner",
    "data_pusher",
    "demo_loader",
    "eps_greedy_handler",
    "her_data_enhancer",
    "inferencer",
    "interaction_evaluator",
    "multistep_trainer",
    "offline_data_fetcher",
    "offpolicy_data_fetcher",
    "pretrainer",
    "reward_model_trainer",
    "rolloutor",
    "settings_handler",
    "sqil_data_pusher",
    "termination_checker",
    "trainer",
]

__getattr__ = lazy(
    __name__,
    {
        ".world_models": ("WorldModelLearner",),
        ".callbacks": (
            "CkptSaver",
            "interaction_evaluator",
            "termination_checker",
        ),
        ".learn": (
            "OffPolicyLearner",
            "data_pusher",
            "multistep_trainer",
            "offline_data_fetcher",
            "offpolicy_data_fetcher",
            "reward_model_trainer",
            "trainer",
        ),
        ".collect": (
            "StepCollector",
            "TransitionList",
            "eps_greedy_handler",
            "inferencer",
            "rolloutor",
            "settings_handler",
        ),
        ".hindsight": ("HERLearner", "her_data_enhancer"),
        ".demonstrations": ("demo_loader", "pretrainer", "sqil_data_pusher"),
        ".profiler": ("StepTimer",),
    },
)
