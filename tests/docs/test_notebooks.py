"""The notebooks: their format, and one of them in a kernel, with its progress and an interrupt.

`test_snippets` runs the code of all of them.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from docs.generate.notebooks import PAGES, notebook

nbformat = pytest.importorskip("nbformat")
client = pytest.importorskip("jupyter_client")

TRAIN = """
from dicore import Agent
agent = Agent("cartpole", policy="dqn", env__stop_value=1e9, pipeline__logger=["console"])
result = agent.train(step=1500)
print("env steps:", result.env_step)
"""
ENDLESS = """
import multiprocessing
agent = Agent("cartpole", policy="dqn", exp_name="runs/endless", env__stop_value=1e9,
              env__manager="sync_subprocess")
agent.train(step=10_000_000)
"""
LEFT = """
import psutil
commands = [" ".join(each.cmdline()) for each in psutil.Process().children(recursive=True)]
pythons_own = ("multiprocessing.resource_tracker", "multiprocessing.forkserver import main")
print([each for each in commands if not any(name in each for name in pythons_own)])
print(agent.folder is not None)
"""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_a_notebook(name: str) -> None:
    made = notebook(name)
    nbformat.validate(made)
    cells = made["cells"]
    code = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    assert re.match(r"STEPS = [\d_]+", code[0])
    assert "# " in cells[0]["source"]
    for source in code:
        compile(re.sub(r"^!.*", "pass", source, flags=re.MULTILINE), name, "exec")
    assert not [cell for cell in cells if "```" in cell["source"]]
    assert not [cell for cell in cells if "](../" in cell["source"]]


class Kernel:
    """A Jupyter kernel in a folder."""

    def __init__(self, folder: Path) -> None:
        self.manager, self.client = client.manager.start_new_kernel(cwd=str(folder))

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def run(self, code: str, interrupt_at: str | None = None) -> list[dict[str, Any]]:
        """Returns the outputs of a cell: messages with `type`."""
        asked = self.client.execute(code)
        outputs: list[dict[str, Any]] = []
        until = time.monotonic() + 90
        while time.monotonic() < until:
            message = self.client.get_iopub_msg(timeout=200)
            if message["parent_header"].get("msg_id") != asked:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return outputs
            outputs.append({"type": kind, **content})
            if interrupt_at is not None and interrupt_at in str(content.get("data", "")):
                self.manager.interrupt_kernel()
                interrupt_at = None
        raise AssertionError(f"the cell did not end: {outputs[-3:]}")


def test_a_training_in_a_notebook(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    try:
        outputs = kernel.run(TRAIN)
        shown = [each for each in outputs if each["type"] == "display_data"]
        renewed = [each for each in outputs if each["type"] == "update_display_data"]
        assert len(shown) == 1
        identity = shown[0]["transient"]["display_id"]
        assert {each["transient"]["display_id"] for each in renewed} == {identity}
        assert re.match(r"1504/1500 env steps.*return", renewed[-1]["data"]["text/plain"])
        text = "".join(each["text"] for each in outputs if each["type"] == "stream")
        assert "env steps: 1504" in text
        assert "updates" not in text  # no progress among what the cell prints
        ended = kernel.run(ENDLESS, interrupt_at="env steps")
        assert ended[-1]["type"] == "error"
        assert ended[-1]["ename"] == "KeyboardInterrupt"
        left = [each["text"] for each in kernel.run(LEFT) if each["type"] == "stream"]
        assert "".join(left).strip() == "[]\nTrue"
    finally:
        kernel.close()
