"""Parts of a run that are not what their role says."""

from __future__ import annotations

from typing import Any

import pytest

from dicore import register
from dicore.config import bind, compile_config
from dicore.errors import UsageError
from dicore.run.env_factory import spaces_of
from dicore_plugins.pipelines.parts import build_parts
from dicore_registry import Registry, using

SECTIONS = {
    "collector": ("policy.collect.collector", "collect_batch, reset_policy, close"),
    "evaluator": ("policy.eval.evaluator", "should_eval, eval, close"),
    "learner": ("policy.learn.learner", "train, register_hook, call_hook, close"),
    "buffer": ("policy.other.replay_buffer", "push, count, sample_batch, state_dict"),
}


@pytest.mark.parametrize("role", SECTIONS)
def test_a_part_without_the_methods_of_its_role_is_refused(role: str) -> None:
    path, missing = SECTIONS[role]
    main: dict[str, Any] = {
        "env": {"type": "cartpole", "n_evaluator_episode": 2, "evaluator_env_num": 2},
        "policy": {"type": "dqn"},
    }
    with using(Registry()):

        @register(role, "odd")
        class Odd:
            """Has nothing of it."""

            def __init__(self, **parts: Any) -> None: ...

        compiled = compile_config(main, overrides=[f"{path}.type=odd"])
        compiled = bind(compiled, *spaces_of(compiled.env, compiled.seed))
        with pytest.raises(UsageError, match=f"Odd is not a {role}: it lacks {missing}") as told:
            build_parts(compiled.cfg)
    assert f"--kind {role}" in told.value.hint
