"""Words of other libraries lead to the options that they mean."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("dicore_contrib_envs")
pytest.importorskip("torch")

from dicore.cli import main
from dicore.config import compile_config
from dicore.errors import ConfigError
from dicore_registry import default
from dicore_registry.explain import _ELSEWHERE
from dicore_tools.neighbour_words import _UNITS, _WORDS, meant_option, unit_of_word

MEANT = {
    "ppo": {
        "gamma": "policy.discount_factor",
        "n_envs": "env.collector_env_num",
        "n_epochs": "policy.learn.epoch_per_collect",
        "ent_coef": "policy.learn.entropy_weight",
        "n_steps": "policy.collect.n_sample",
        "clip_range": "policy.learn.clip_ratio",
        "vf_coef": "policy.learn.value_weight",
        "total_timesteps": "pipeline.max_env_step",
        "device": "policy.cuda",
    },
    "sac": {
        "lr": "policy.learn.learning_rate",
        "ent_coef": "policy.learn.alpha",
        "tau": "policy.learn.target_theta",
        "buffer_size": "policy.other.replay_buffer.replay_buffer_size",
        "learning_starts": "policy.collect.random_collect_size",
        "net_arch": "policy.model.actor_hidden_size_list",
    },
}


@pytest.mark.parametrize("policy", MEANT)
def test_a_word_of_another_library_is_answered_with_the_option(policy: str) -> None:
    words = dict.fromkeys(MEANT[policy], 1)
    with pytest.raises(ConfigError) as caught:
        compile_config({**words, "env": "pendulum", "policy": policy})
    said = {line.partition(":")[0]: line for line in caught.value.problems}
    for word, path in MEANT[policy].items():
        end = f"; '{word}' is {path} here{unit_of_word(word)}"
        assert said[word] == f"{word}: the config has no option '{word}'{end}"


def test_every_option_of_the_table_is_one_of_some_policy() -> None:
    there: set[str] = {"pipeline.dataset.path"}  # of a data set, which these have not
    for policy in ("ppo", "dqn", "sac", "td3"):
        env = "cartpole" if policy == "dqn" else "pendulum"
        for path in compile_config({"env": env, "policy": policy}).origin:
            there |= {path, *(path[:at] for at, sign in enumerate(path) if sign in ".[")}
    assert not {path for paths in _WORDS.values() for path in paths} - there
    assert meant_option("--ent-coef") == "policy.learn.entropy_weight"
    assert meant_option("nothing") == unit_of_word("nothing") == unit_of_word("lr") == ""
    assert not {*_UNITS} - {*_WORDS}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--lr", "3"], "no such option '--lr'; write policy.learn.learning_rate=VALUE"),
        (["--gamma=0.9"], "no such option '--gamma'; write policy.discount_factor=VALUE"),
        (["--step", "3"], "no such option '--step'; did you mean '--steps'?"),
        (["--total-timesteps=3"], "'--total-timesteps'; did you mean '--steps'?"),
        (["--env-stepp=3"], "no such option '--env-stepp'; did you mean '--steps'?"),
        (["--num-iterations=3"], "'--num-iterations'; did you mean '--max-train-iter'?"),
        (["--tensorboard-log=x"], "'--tensorboard-log'; write pipeline.logger=VALUE"),
        (["--n-steps=9"], "collect.n_sample=VALUE, which counts the steps of all environments"),
        (["target_update_interval=9"], "target_update_freq here, which counts updates, not env"),
        (["env.env_wrapper=[gymnasium.wrappers.TimeLimit]"], "TimeLimit'; here it is time_limit"),
        (["env.max_episode_steps=9"], "env.env_wrapper here, which takes [{type: time_limit, max_"),
        (["--data", "demo"], "no such option '--data'; write pipeline.dataset.path=VALUE"),
        (["--capture-video"], "; dicore eval RUN --replay-path DIR records videos"),
        (["-p", "recurrent_ppo"], "'recurrent_ppo'; here it is ppo with policy.model.rnn=lstm"),
        (["--onnx"], "'--onnx'; the ending of -o FILE tells the format"),
        (["--algo=dqn"], "no such option '--algo'; did you mean '--policy'?"),
        (["-p", "dnq"], "policy.type: no policy named 'dnq'; did you mean 'dqn'?"),
        (["--max-env-step", "1.5e0"], "'1.5e0' is not a valid integer"),
        (["--track", "wanb"], "no logger named 'wanb'; did you mean 'wandb'?"),
    ],
)
def test_a_word_on_the_command_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "-e", "cartpole", "-p", "dqn", "--dry-run", *words]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("word", "meant"), [("play", "enjoy"), ("fit", "train"), ("resume", "train --resume RUN")]
)
def test_a_command_of_another_name(
    word: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word, "x"]) == 2
    assert f"no command named '{word}'; here it is {meant}\n" in capsys.readouterr().err


def test_a_logger_without_a_name_is_wandb(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["train", "-e", "cartpole", "-p", "dqn", "--dry-run"]
    assert main([*words, "--track"]) == 0
    assert main([*words, "--track", "csv", "--track=wandb"]) == 0
    assert capsys.readouterr().err == ""


def test_what_others_call_a_component_is_one_here() -> None:
    names = {kind: {each.name for each in default().entries(kind)} for kind in _ELSEWHERE}
    for kind, words in _ELSEWHERE.items():
        assert {meant.split()[0].strip(",") for meant in words.values()} <= names[kind]
        assert not words.keys() & names[kind]


def test_a_budget_is_none_of_a_command_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--episodes", "3"]) == 2
    assert "no such option '--episodes'; did you mean '--n-episode'?" in capsys.readouterr().err


def test_counts_lists_device_and_logger_in_the_forms_of_others(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    words = ["policy.model.encoder_hidden_size_list=64,32", "policy.learn.batch_size=1e2"]
    words += ["--max-env-step", "1e5", "--device", "cpu", "--track", "csv", "pipeline.logger=[]"]
    seen = []
    entry = default().find("api", "check_request")
    monkeypatch.setattr(
        "dicore_tools.commands.config.check_request", lambda r: seen.append(r) or entry.name
    )
    assert main(["train", "-e", "cartpole", "-p", "dqn", "--dry-run", *words]) == 0
    from dicore.run.request import compile_request

    compiled = compile_request(seen[0])
    assert compiled.policy.model is not None
    assert compiled.policy.model["encoder_hidden_size_list"] == (64, 32)
    assert (compiled.policy.learn.batch_size, compiled.policy.cuda) == (100, False)
    assert compiled.pipeline.max_env_step == 100_000
    assert [each.type for each in compiled.pipeline.logger] == ["csv"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list", "--kind", "policy"], "no such option '--kind'; write dicore list KIND"),
        (["list", "algorithm"], "unknown kind 'algorithm'; did you mean 'policy'?"),
        (["show", "algorithm/dqn"], "unknown kind 'algorithm'; did you mean 'policy'?"),
        (["config", "check", "cartpole_dqn", "pipeline.exp_name=a"],
         "has no option 'exp_name'; 'exp_name' stands at the top of a config"),
        (["export", "runs/x"], "'--out': a file .onnx, .pt2 (torch.export) or .ts (TorchScript)"),
        (["import-weights", "x.pt"], "hint: train one for a step, then: dicore import-weights"),
        (["hub", "push", "nothing", "hub"], "name a run folder, or the file or folder of a data"),
        (["diagnose", "nowhere"], "hint: pass a run folder, as runs/NAME"),
        (["schema", "nosuch"], "hint: dicore schema lists the commands with --json"),
    ],
)  # fmt: skip
def test_a_mistake_of_the_first_hour_is_answered_with_what_to_write(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["env", "policy"])
def test_a_file_of_the_name_is_pointed_out(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a registered name is near."""
    monkeypatch.chdir(tmp_path)
    Path("cartpol.py").touch()
    with pytest.raises(ConfigError, match=rf"no {kind} named 'cartpol'; cartpol.py is here: .*:CL"):
        compile_config({"env": "cartpole", "policy": "dqn"} | {kind: "cartpol"})
