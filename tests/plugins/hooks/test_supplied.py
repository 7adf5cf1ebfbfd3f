"""Who supplies the hooks of a config is recorded and compared, like every other component."""

from __future__ import annotations

from pathlib import Path

import pytest

from dicore.config import compile_config, write_config
from dicore.errors import ConfigError
from dicore.testing import isolated_registry

CONFIG = {"env": {"type": "cartpole"}, "policy": {"type": "dqn"}}
HOOK = '''
"""A hook in a file."""
from dicore.interfaces.hook import LearnerHook

class Cheer(LearnerHook):
    """{says}"""
    def __init__(self, name="cheer", priority=50, position="after_iter"):
        super().__init__(name=name, priority=priority, position=position)
    def __call__(self, engine): ...
'''
AT = "policy.learn.learner.hook"


@pytest.mark.parametrize(
    ("hook", "path", "name"),
    [
        ({"log_show_after_iter": 5}, f"{AT}.log_show_after_iter", "log_show"),
        (["log_show"], f"{AT}[0]", "log_show"),
        ({"mine": {"type": "save_ckpt"}}, f"{AT}.mine", "save_ckpt"),
    ],
)
def test_every_form_is_recorded(hook: object, path: str, name: str) -> None:
    config = {**CONFIG, "policy": {"type": "dqn", "learn": {"learner": {"hook": hook}}}}
    with isolated_registry("dicore-plugins", "dicore-contrib-envs"):
        components = compile_config(config).components
    found = {at: facts for at, facts in components.items() if at.startswith(AT)}
    assert set(found) >= {path}
    assert found[path]["type"] == name
    assert found[path]["dist"] == "dicore-plugins"
    assert found[path]["source"].startswith("sha256:")


def test_a_changed_hook_is_not_what_was_locked(tmp_path: Path) -> None:
    file = tmp_path / "cheer.py"
    hook = [{"type": f"{file}:Cheer"}]
    config = {**CONFIG, "policy": {"type": "dqn", "learn": {"learner": {"hook": hook}}}}
    file.write_text(HOOK.format(says="Hooray."))
    write_config(compile_config(config), tmp_path / "x")
    compile_config(str(tmp_path / "x/config.json"), locked=True, names_only=False)
    file.write_text(HOOK.format(says="Something else altogether."))
    with pytest.raises(ConfigError, match=r"policy\.learn\.learner\.hook\[0\].*source"):
        compile_config(str(tmp_path / "x/config.json"), locked=True, names_only=False)
