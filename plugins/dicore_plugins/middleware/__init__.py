"""Middleware: the steps that a training loop consists of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.middleware.callbacks import (
        CkptSaver,
        interaction_evaluator,
        metric_evaluator,
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
    from dicore_plugins.middleware.collectors import (
        EpisodeCollector,
        PPOFStepCollector,
        eps_greedy_masker,
    )
    from dicore_plugins.middleware.demonstrations import (
        demo_loader,
        pretrainer,
        sqil_data_pusher,
    )
    from dicore_plugins.middleware.devices import (
        device_prefetcher,
    )
    from dicore_plugins.middleware.estimators import (
        gae_estimator,
        montecarlo_return_estimator,
        nstep_reward_enhancer,
        ppof_adv_estimator,
        priority_calculator,
        reward_estimator,
    )
    from dicore_plugins.middleware.hindsight import (
        HERLearner,
        her_data_enhancer,
    )
    from dicore_plugins.middleware.keep_time import KeepTime
    from dicore_plugins.middleware.learn import (
        OffPolicyLearner,
        data_pusher,
        multistep_trainer,
        offpolicy_data_fetcher,
        reward_model_trainer,
        trainer,
    )
    from dicore_plugins.middleware.offline import (
        offline_data_fetcher,
    )
    from dicore_plugins.middleware.profiler import (
        StepTimer,
        keeping_time,
    )
    from dicore_plugins.middleware.recorders import (
        buffer_saver,
        epoch_timer,
        final_ctx_saver,
        offline_data_saver,
        offline_logger,
        online_logger,
    )
    from dicore_plugins.middleware.world_models import (
        WorldModelLearner,
    )

__all__ = [
    "CkptSaver",
    "EpisodeCollector",
    "HERLearner",
    "KeepTime",
    "OffPolicyLearner",
    "PPOFStepCollector",
    "StepCollector",
    "StepTimer",
    "TransitionList",
    "WorldModelLearner",
    "buffer_saver",
    "data_pusher",
    "demo_loader",
    "device_prefetcher",
    "epoch_timer",
    "eps_greedy_handler",
    "eps_greedy_masker",
    "final_ctx_saver",
    "gae_estimator",
    "her_data_enhancer",
    "inferencer",
    "interaction_evaluator",
    "keeping_time",
    "metric_evaluator",
    "montecarlo_return_estimator",
    "multistep_trainer",
    "nstep_reward_enhancer",
    "offline_data_fetcher",
    "offline_data_saver",
    "offline_logger",
    "offpolicy_data_fetcher",
    "online_logger",
    "ppof_adv_estimator",
    "pretrainer",
    "priority_calculator",
    "reward_estimator",
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
        ".callbacks": (
            "CkptSaver",
            "interaction_evaluator",
            "metric_evaluator",
            "termination_checker",
        ),
        ".collect": (
            "StepCollector",
            "TransitionList",
            "eps_greedy_handler",
            "inferencer",
            "rolloutor",
            "settings_handler",
        ),
        ".collectors": (
            "EpisodeCollector",
            "PPOFStepCollector",
            "eps_greedy_masker",
        ),
        ".demonstrations": (
            "demo_loader",
            "pretrainer",
            "sqil_data_pusher",
        ),
        ".devices": ("device_prefetcher",),
        ".estimators": (
            "gae_estimator",
            "montecarlo_return_estimator",
            "nstep_reward_enhancer",
            "ppof_adv_estimator",
            "priority_calculator",
            "reward_estimator",
        ),
        ".hindsight": (
            "HERLearner",
            "her_data_enhancer",
        ),
        ".learn": (
            "OffPolicyLearner",
            "data_pusher",
            "multistep_trainer",
            "offpolicy_data_fetcher",
            "reward_model_trainer",
            "trainer",
        ),
        ".offline": ("offline_data_fetcher",),
        ".keep_time": ("KeepTime",),
        ".profiler": ("StepTimer", "keeping_time"),
        ".recorders": (
            "buffer_saver",
            "epoch_timer",
            "final_ctx_saver",
            "offline_data_saver",
            "offline_logger",
            "online_logger",
        ),
        ".world_models": ("WorldModelLearner",),
    },
)
