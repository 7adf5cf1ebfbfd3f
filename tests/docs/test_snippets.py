"""Every snippet of the handwritten pages and of the README works as shown."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dicore.task import OnlineRLContext, task
from tests.docs.snippets import SHARED, Page, Snippet, snippets_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(
    path.relative_to(ROOT)
    for path in [ROOT / "README.md", *DOCS.rglob("*.md")]
    if not {"_build", "generated", "decisions"} & set(path.relative_to(DOCS.parent).parts)
)
TRAINED = "runs/cartpole_dqn_s0"


@pytest.fixture(scope="session", autouse=True)
def shared(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Names the folder of what is trained once for all processes."""
    base = tmp_path_factory.getbasetemp()
    SHARED[:] = [base.parent if "PYTEST_XDIST_WORKER" in os.environ else base]


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a short run for pages that need one."""
    folder = tmp_path_factory.mktemp("trained")
    page = Page(Path("trained"), folder)
    command = "dicore train -e cartpole -p dqn -s 0 --max-env-step 1000"
    page.run(Snippet("console", f"$ {command}\nbudget spent", 1))
    return folder


@pytest.mark.parametrize("path", PAGES, ids=str)
def test_the_snippets_of_a_page_run(path: Path, tmp_path: Path, trained: Path) -> None:
    text = (ROOT / path).read_text(encoding="utf-8")
    if f"<!-- needs: {TRAINED} -->" in text:
        shutil.copytree(trained, tmp_path, dirs_exist_ok=True)
    page = Page(path, tmp_path)
    if path.name == "README.md":
        prepare_readme(page)
    for snippet in snippets_of(text):
        page.run(snippet)


def prepare_readme(page: Page) -> None:
    """Creates what the README uses without showing it: a config file and the parts of a task."""
    from dicore.config import bind, compile_config
    from dicore.run.env_factory import make_env_manager, spec_of
    from dicore_contrib_envs.presets import CARTPOLE_DQN
    from dicore_plugins import middleware
    from dicore_plugins.buffers import NaiveReplayBuffer
    from dicore_plugins.policies import DQNPolicy

    (page.folder / "my_config.py").write_text(
        "main_config = {'env': {'stop_value': 20}, 'policy': {'nstep': 2}}\n"
        "create_config = {'env': {'type': 'cartpole'}, 'policy': {'type': 'dqn'}}\n"
    )
    compiled = compile_config(
        CARTPOLE_DQN,
        overrides=["policy.learn.update_per_collect=1", f"exp_name={page.folder / 'task'}"],
    )
    cfg = bind(compiled, spec_of(compiled.env, 0)).cfg
    policy, buffer_ = DQNPolicy(cfg.policy), NaiveReplayBuffer(cfg.policy.other.replay_buffer)
    vars(page.module).update(
        cfg=cfg, policy=policy, buffer_=buffer_, task=task, OnlineRLContext=OnlineRLContext,
        collector_env=make_env_manager(cfg.env, "collector", 0),
        evaluator_env=make_env_manager(cfg.env, "evaluator", 0),
        **{name: getattr(middleware, name) for name in middleware.__all__},
    )  # fmt: skip
