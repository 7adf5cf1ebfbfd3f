"""`dicore config`: what a config comes to and from where, what is wrong with it, how two differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main
from dicore.config import compile_config
from dicore.run.launch import launch
from dicore.run.log import read_metrics
from dicore_registry import using
from tests.core.hookspecs.test_manager import HEAD, add, world
from tests.registry.world import World
from tests.tools.conftest import mtimes

__all__ = ["world"]

YAML = """\
env:
  type: cartpole
  collector_env_num: 4
policy:
  type: dqn
  learn:
    learning_rate: 1e-3
"""
PANEL = """\
cpanel = {"lr": 1e-3, "workers": 8, "n_steps": 4, "sizes": (64, 64)}

def gen_params(cpanel):
    batch = cpanel["n_steps"] * cpanel["workers"]
    main_config = {
        "env": {"collector_env_num": cpanel["workers"]},
        "policy": {
            "learn": {"batch_size": batch, "learning_rate": cpanel["lr"]},
            "model": {"encoder_hidden_size_list": cpanel["sizes"]},
        },
    }
    return main_config, {"env": {"type": "cartpole"}, "policy": {"type": "dqn"}}
"""
SMALL = [
    "env.evaluator_env_num=2", "env.n_evaluator_episode=2", "env.stop_value=inf",
    "policy.eval.evaluator.eval_freq=100", "pipeline.logger=[]",
    'learner.hook={"log_show_after_iter": 1}',
]  # fmt: skip


@pytest.fixture
def here(here: Path) -> Path:
    (here / "a.yaml").write_text(YAML)
    (here / "panel.py").write_text(PANEL)
    return here


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the control panel's file, two of its knobs turned."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "panel.py").write_text(PANEL)
    launch(
        str(folder / "panel.py"), exp_name=str(folder / "x"), max_env_step=300,
        overrides=[*SMALL, "policy.nstep=2"], cpanel='{"workers": 4, "sizes": [16, 16]}',
    )  # fmt: skip
    return folder / "x"


def said(capfd: pytest.CaptureFixture[str], *words: str, code: int = 0) -> Any:
    assert main(["config", *words]) == code
    return capfd.readouterr()


def table(text: str) -> dict[str, list[str]]:
    lines = [line.split(None, 2) for line in text.splitlines()]
    return {line[0]: line[1:] for line in lines if line}


class TestShow:
    def test_every_value_with_its_origin(self, here: Path, capfd: Any) -> None:
        """E3: the class of a default, the line of a file, the command line, what it follows."""
        words = ["a.yaml", "policy.learn.batch_size=128", "--origin"]
        rows = table(said(capfd, "show", *words).out)
        compiled = compile_config("a.yaml")
        assert rows.keys() >= compiled.origin.keys() - {
            "pipeline.logger",
            "policy.learn.learner.hook",
        }
        for path, row in {
            "policy.learn.batch_size": ["128", "command line"],
            "policy.learn.learning_rate": ["0.001", "a.yaml:7"],
            "env.collector_env_num": ["4", "a.yaml:3"],
            "policy.discount_factor": ["0.97", "class PolicyConfig"],
            "policy.learn.target_update_freq": ["100", "class ValueLearnConfig"],
            "policy.eval.evaluator.stop_value": ["475.0", "follows env.stop_value"],
            "policy.collect.collector.type": ["sample", "default collector"],
        }.items():
            assert rows[path] == row

    def test_a_preset_lies_below(self, capfd: Any) -> None:
        rows = table(said(capfd, "show", "cartpole_dqn", "policy.nstep=1", "--origin").out)
        assert rows["policy.learn.batch_size"][1] == "preset cartpole_dqn"
        assert rows["policy.nstep"] == ["1", "command line"]

    @pytest.mark.parametrize("form", ["json", "yaml"])
    def test_what_is_printed_is_a_config_again(self, form: str, here: Path, capfd: Any) -> None:
        words = ["a.yaml", "env.stop_value=inf", "exp_name=it's ü", "policy.nstep=2"]
        (here / f"b.{form}").write_text(said(capfd, "show", *words, f"--{form}").out)
        assert compile_config(f"b.{form}").cfg == compile_config("a.yaml", overrides=words[1:]).cfg

    def test_origins_for_programs_and_in_yaml(self, here: Path, capfd: Any) -> None:
        told = json.loads(said(capfd, "show", "a.yaml", "--json", "--origin").out)
        assert told["policy.learn.learning_rate"] == {"value": 0.001, "origin": "a.yaml:7"}
        text = said(capfd, "show", "a.yaml", "--yaml", "--origin").out
        assert "learning_rate: 0.001  # a.yaml:7\n" in text
        (here / "c.yaml").write_text(text)
        assert compile_config("c.yaml").cfg == compile_config("a.yaml").cfg

    def test_of_a_run_it_is_what_was_trained(self, run: Path, capfd: Any) -> None:
        rows = table(said(capfd, "show", str(run), "--origin").out)
        assert rows["policy.model.obs_shape"] == ["4", "spaces"]
        assert rows["policy.nstep"] == ["2", "command line"]
        assert rows["policy.learn.batch_size"][1].endswith("panel.py:8")
        changed = table(said(capfd, "show", str(run), "policy.nstep=3", "--origin").out)
        assert changed["policy.nstep"] == ["3", "command line"]
        assert changed["policy.model.obs_shape"][1].startswith(f"{run}/config.json:")

    def test_secrets_are_left_out(self, here: Path, capfd: Any) -> None:
        """R-E10: on the screen, in JSON, in YAML, in what is told of a mistake."""
        (here / "vault.py").write_text(
            "from dicore.config import frozen, option\n"
            "from dicore_contrib_envs.classic_control import CartPoleConfig\n\n\n"
            "@frozen(kw_only=True)\n"
            "class Vault(CartPoleConfig):\n"
            '    """Wants a token."""\n\n'
            '    token: str = option("", "to get in")\n'
        )
        words = ["-e", "./vault.py:Vault", "-p", "dqn", "env.token=hush"]
        for more in ([], ["--json"], ["--yaml"], ["--origin"]):
            shown = said(capfd, "show", *words, *more)
            assert "hush" not in shown.out + shown.err
            assert "<redacted>" in shown.out
        wrong = said(capfd, "check", *words, "env.token=[hush]", "env.tokn=hush", code=2).err
        assert "hush" not in wrong
        assert "did you mean 'token'?" in wrong


class TestCheck:
    def test_what_is_right_is_said_in_a_line(self, here: Path, run: Path, capfd: Any) -> None:
        out = said(capfd, "check", "a.yaml", "cartpole_dqn", str(run)).out
        names = [line.partition(": valid (dqn on CartPole-v1, serial, sha256:")[0] for line in
                 out.splitlines()]  # fmt: skip
        assert names == ["a.yaml", "cartpole_dqn", str(run)]

    def test_every_mistake_by_path_with_its_line(self, here: Path, capfd: Any) -> None:
        (here / "bad.yaml").write_text(
            "env:\n  type: cartpole\n  stop_value: high\npolicy:\n  type: dqnn\n  nstep: 0\n"
            "  learn: {lerning_rate: 1}\npipelin: serial\n"
        )
        (here / "bad.toml").write_text("[env]\ntype='cartpole'\n[policy]\ntype='dqn'\nnstep=1.5\n")
        done = said(capfd, "check", "bad.yaml", "a.yaml", "bad.toml", code=2)
        assert done.out.startswith("a.yaml: valid")
        assert done.err.splitlines() == [
            "bad.yaml: 5 errors",
            "error: env.stop_value: expected float, got str 'high' (bad.yaml:3)",
            "error: pipelin: the config has no option 'pipelin'; did you mean 'pipeline'?"
            " (bad.yaml:8)",
            "error: policy.learn.lerning_rate: policy 'dqn' has no option 'learn.lerning_rate'; did"
            " you mean 'learning_rate'? (bad.yaml:7)",
            "error: policy.nstep: must be >= 1, got 0 (bad.yaml:6)",
            "error: policy.type: no policy named 'dqnn'; did you mean 'dqn'? (bad.yaml:5)",
            "bad.toml: 1 error",
            "error: policy.nstep: expected int, got float 1.5 (bad.toml)",
            "  hint: nstep: n of n-step returns; raise for delayed rewards (more variance)"
            " (default: 1)",
        ]

    @pytest.mark.parametrize(
        ("words", "text"),
        [
            (["-e", "pendulum", "-p", "dqn"], "policy.type: 'dqn' needs discrete actions"),
            (["cartpole_dqn", "policy.model.obs_shape=9"], "policy.model.obs_shape: expected 4,"),
            (["cartpole_dqn", "pipeline.expert=random"], "pipeline.expert: has no effect"),
            (["cartpole_dqn", '{"policy.nstp": 1}'], "did you mean 'nstep'?"),
            (["-e", "", "-p", ""], "env.type: expected a name, got ''"),
            (["-e", "cartpole"], "nothing to train: no config"),
            (["no_such"], "no_such: not a file, run or preset"),
            (["no.such.module"], "no.such.module: no such config file"),
            (["."], "a run folder contains config.json"),
            (["--locked", "a.yaml"], "--locked: the config has no record of its components"),
        ],
    )
    def test_what_cannot_be_trained(
        self, words: list[str], text: str, here: Path, capfd: Any
    ) -> None:
        done = said(capfd, "check", *words, code=2)
        assert (done.out, text in done.err) == ("", True), done.err

    @pytest.mark.parametrize(
        "words",
        ["check x", "check x/config.json", "show x/config.json seed=3", "diff x a.yaml"],
    )
    def test_a_saved_config_runs_no_code_unless_trusted(
        self, words: str, run: Path, here: Path, capfd: Any
    ) -> None:
        """RELIABILITY E06, in each command that compiles."""
        (here / "x").mkdir()
        text = (run / "config.json").read_text().replace('"type": "cartpole"', '"type": "./e.py:E"')
        (here / "x/config.json").write_text(text)
        (here / "e.py").write_text("from pathlib import Path\nPath('ran').touch()\nE = 1\n")
        if words.startswith("diff"):
            assert "./e.py:E" in said(capfd, *words.split()).out  # shown as recorded
        else:
            assert "--trust" in said(capfd, *words.split(), code=2).err
            assert not (here / "ran").exists()
            said(capfd, *words.split(), "--trust", code=2)
            assert (here / "ran").exists()

    def test_quick_does_without_the_environment(self, here: Path, capfd: Any) -> None:
        said(capfd, "check", "--quick", "-e", "pendulum", "-p", "dqn")
        said(capfd, "check", "--quick", "-e", "pendulum", "-p", "dqn", "policy.nstep=0", code=2)

    @pytest.mark.parametrize(
        ("words", "code", "text"),
        [
            ("-e cartpole -p dqn -s 0", 0, "config: valid (dqn on CartPole-v1, serial, sha256:"),
            ("a.yaml -s 0 -s 1", 0, "a.yaml: valid (dqn on CartPole-v1, serial, sha256:"),
            ("-e cartpole -p dqn policy.nstep=0", 2, "error: policy.nstep: must be >= 1"),
            ("-e pendulum -p dqn", 2, "error: "),
            ("--resume {run} --max-env-step 400", 0, "{run}: valid (dqn on CartPole-v1, "),
            ("--resume {run} policy.nstep=7", 2, "error: {run}: trained with another config"),
        ],
    )
    def test_a_training_checked_and_not_run(
        self, words: str, code: int, text: str, here: Path, run: Path, capfd: Any
    ) -> None:
        before = mtimes(run) | mtimes(here)
        assert main(["train", "--dry-run", *words.format(run=run).split()]) == code
        done = capfd.readouterr()
        assert (done.out or done.err).startswith(text.format(run=run))
        assert mtimes(run) | mtimes(here) == before

    def test_a_locked_run_is_that_of_its_components(self, run: Path, capfd: Any) -> None:
        said(capfd, "check", "--locked", str(run))
        file = run / "config.json"
        text = file.read_text()
        record = json.loads(text)
        record["components"]["policy"]["source"] = "sha256:feedface0"
        try:
            file.write_text(json.dumps(record))
            done = said(capfd, "check", "--locked", str(run), code=2)
        finally:
            file.write_text(text)
        assert "policy: recorded 'dqn' of dicore-plugins" in done.err
        assert "source sha256:feedface, here" in done.err

    def test_a_plugin_may_refuse(self, world: World, capfd: Any) -> None:
        """What it would refuse to train is not fine."""
        refuse = "raise ConfigError('policy.nstep: not in this house')"
        hook = f"def dicore_config_compiled(cfg):\n    {refuse}\n"
        add(world, "house-rules", f"from dicore.errors import ConfigError\n{HEAD}\n{hook}")
        with using(world.registry()):
            done = said(capfd, "check", "cartpole_dqn", code=2)
        assert done.err == "error: policy.nstep: not in this house\n"


class TestDiff:
    def test_values_and_components_of_two_runs(self, run: Path, tmp_path: Path, capfd: Any) -> None:
        other = tmp_path / "y"
        other.mkdir()
        record = json.loads((run / "config.json").read_text())
        record["config"]["policy"]["nstep"] = 5
        record["components"]["policy"]["version"] = "0.0.9"
        (other / "config.json").write_text(json.dumps(record))
        rows = table(said(capfd, "diff", str(run), str(other)).out)
        assert rows["policy.nstep"] == ["2", "5"]
        assert "0.0.9" in rows["policy"][1]
        assert rows.keys() == {"option", "policy.nstep", "component", "policy"}
        told = json.loads(said(capfd, "diff", str(run), str(other), "--json").out)
        assert told["values"] == {"policy.nstep": [2, 5]}
        assert list(told["components"]) == ["policy"]
        assert said(capfd, "diff", str(run), str(run)).out == "no difference\n"

    def test_a_run_and_the_file_it_was_made_from(self, run: Path, here: Path, capfd: Any) -> None:
        """The spaces, of which a file knows nothing, are no difference."""
        rows = table(said(capfd, "diff", str(run), "panel.py").out)
        assert rows["policy.learn.batch_size"] == ["16", "32"]
        assert rows["policy.nstep"] == ["2", "1"]
        assert not any("shape" in path for path in rows)

    def test_what_is_no_config(self, here: Path, capfd: Any) -> None:
        assert "nope: not a file" in said(capfd, "diff", "a.yaml", "nope", code=2).err


class TestControlPanel:
    """M1 to M3: knobs of a file, and what the other values are made of them."""

    def test_knobs_are_turned_and_derived_values_follow(self, here: Path, capfd: Any) -> None:
        knobs = '{"lr": 0.01, "workers": 2, "sizes": [8, 8]}'
        rows = table(said(capfd, "show", "panel.py", "--cpanel", knobs).out)
        assert rows["policy.learn.batch_size"] == ["8"]
        assert rows["env.collector_env_num"] == ["2"]
        assert rows["policy.learn.learning_rate"] == ["0.01"]
        assert rows["policy.model.encoder_hidden_size_list"] == ["[8,", "8]"]

    @pytest.mark.parametrize(
        ("file", "knobs", "text"),
        [
            ("panel.py", '{"lrr": 1}', "cpanel.lrr: no such parameter; did you mean 'lr'?"),
            ("panel.py", '{"zzz": 1}', "expected lr, workers, n_steps, sizes"),
            ("panel.py", '{"lr": "x"}', "cpanel.lr: expected float, got str 'x'"),
            ("panel.py", "{lr: 1}", "cpanel: not a JSON object: "),
            ("panel.py", "[1]", "cpanel: not a JSON object, but list"),
            ("panel.py", '{"lr": -1}', "learning_rate: must be > 0, got -1.0 (panel.py:8)"),
            ("a.yaml", '{"lr": 1}', "a.yaml: has no cpanel, but lr is set"),
        ],
    )
    def test_what_cannot_be_turned(
        self, file: str, knobs: str, text: str, here: Path, capfd: Any
    ) -> None:
        assert text in said(capfd, "check", file, "--cpanel", knobs, code=2).err

    def test_a_run_keeps_them(self, run: Path) -> None:
        assert json.loads((run / "cpanel.json").read_text())["workers"] == 4
        assert compile_config(run / "params.yaml").cfg == compile_config(run / "config.json").cfg


def test_each_saved_form_trains_the_very_same(run: Path, tmp_path: Path) -> None:
    """E13, E28: the same losses, and an override of the command line is in all of them."""

    def losses(folder: Path) -> list[float]:
        tag = "learner/total_loss"
        return [line[tag] for line in read_metrics(folder / "log/metrics.jsonl") if tag in line]

    wanted = losses(run)
    assert len(wanted) >= 10
    for form in ("config.json", "total_config.py", "formatted_total_config.py", "params.yaml"):
        assert compile_config(run / form).policy.nstep == 2
        launch(str(run / form), exp_name=str(tmp_path / form))
        assert losses(tmp_path / form) == wanted
