"""Names of values are at hand where numpy is not."""

from __future__ import annotations

import subprocess
import sys
import typing

import pytest

from dicore.interfaces.collector import ISerialCollector
from dicore.interfaces.env_manager import IEnvManager
from dicore.interfaces.learner import ILearner
from dicore.interfaces.policy import StateDict


def test_an_interface_has_them_without_numpy() -> None:
    program = (
        "import sys; from dicore.interfaces.policy import State, StateDict, Tree;"
        "from dicore.values import Columns, Info, Row; assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("role", [IEnvManager, ISerialCollector, ILearner])
def test_the_types_of_a_state_can_be_evaluated(role: type) -> None:
    hints = typing.get_type_hints(role.state_dict)  # type: ignore[attr-defined]
    assert hints == {"return": StateDict}
