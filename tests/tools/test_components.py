"""`build` takes what a config can hold, and parts that it can not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dicore import build
from dicore.errors import ConfigError
from dicore_plugins.middleware import CkptSaver

POLICY = SimpleNamespace(learn_mode=None)


@pytest.mark.parametrize(
    ("more", "parts"),
    [({}, {"run": None}), ({"run": None, "cfg": None}, {}), ({"cfg": SimpleNamespace()}, {})],
    ids=["part", "None", "object"],
)
def test_what_no_config_can_hold_is_a_part_wherever_it_stands(
    tmp_path: Path, more: dict[str, Any], parts: dict[str, Any]
) -> None:
    options = {"type": "ckpt_saver", "save_dir": str(tmp_path), **more}
    made = build("middleware", options, policy=POLICY, **parts)
    assert type(made) is CkptSaver
    assert made.uses == (POLICY,)


def test_a_word_that_is_no_parameter_is_unknown() -> None:
    with pytest.raises(ConfigError, match="CkptSaverConfig has no option 'rnu'"):
        build("middleware", {"type": "ckpt_saver", "rnu": None}, policy=POLICY)
