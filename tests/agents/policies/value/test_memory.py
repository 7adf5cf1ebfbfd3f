"""Values of agents with a memory: sequences, their states, and what is learned from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from gymnasium.spaces import MultiBinary

from dicore.cli import main
from dicore.data import Batch, tree_map
from dicore.errors import ConfigError
from dicore.run.launch import launch
from dicore_agents.policies.memory import as_steps
from tests.agents.policies.recall import MortalRecall, Recall
from tests.agents.policies.remembering import Remembering, by_steps, component, made, played
from tests.agents.policies.value.test_games import made as of_spec
from tests.agents.policies.value.test_games import team_spec
from tests.plugins.policies.resuming import same_after_resume
from tests.soak import some

HOME = "tests.agents.policies.recall"
SIZES = ("policy.model.rnn_hidden_size=16", "policy.model.hidden_size_list=[16]")
MEMORY = ("policy.model.rnn=gru", "policy.collect.unroll_len=4", *SIZES[:1])
NAMES = ("independent_q", "vdn", "qmix", "wqmix", "qplex", "qtran")


class TestContract(Remembering):
    component = component("vdn")
    collect: ClassVar[dict[str, int]] = {"unroll_len": 3, "burn_in": 2}


def remembering(name: str, env: Any = MortalRecall, **collect: int) -> Any:
    model = {"rnn": "lstm", "rnn_hidden_size": 4, "hidden_size_list": [6]}
    return made(name, env(), nstep=2, model=model, collect={"unroll_len": 3, **collect})


@pytest.mark.parametrize(("name", "burn_in"), [("vdn", 0), ("wqmix", 2)])
def test_sequences_remember_what_single_steps_do(name: str, burn_in: int) -> None:
    """States end with episodes; agents that do not act have none, and come with a new one."""
    policy = remembering(name, burn_in=burn_in)
    block, tail, _ = played(policy, MortalRecall, 14)
    batch = policy.collect_mode.get_train_sample(block, tail).to_torch()
    model, cfg = policy.get_attribute("model"), policy.get_attribute("cfg")
    steps, rows = as_steps(batch, model, model, cfg), len(batch)
    alive = steps["obs"]["alive"]
    assert 0 < alive.sum() < alive.numel()
    assert batch["end"].any(1).all()
    for index in range(rows):
        now, later = by_steps(policy, batch, index)
        for t in range(3):
            row, at = t * rows + index, burn_in + t
            last = at + int(batch["bridge"][index, at])
            torch.testing.assert_close(steps["obs"]["memory"][row], now[at])
            torch.testing.assert_close(steps["next_obs"]["memory"][row], later[last])
            torch.testing.assert_close(steps["chooser_obs"]["memory"][row], later[last])
            assert torch.equal(steps["action"][row], batch["action"][index, at])
            assert torch.equal(
                steps["next_obs"]["state"][row], batch["next_obs"]["state"][index, last]
            )
            assert steps["done"][row] == batch["done"][index, at]


def test_the_states_before_sequences_are_those_of_acting() -> None:
    policy = remembering("vdn")
    block, tail, _ = played(policy, MortalRecall, 14)
    batch = policy.collect_mode.get_train_sample(block, tail)
    assert not batch["prev_state"][:3].any()
    states = torch.from_numpy(block["prev_state"])
    first = np.asarray(block["end"])[:-1]
    assert not states[1:][first].any()
    assert states[1:][~first].any()
    output = policy.get_attribute("model")(
        tree_map(lambda leaf: torch.from_numpy(leaf[2]), block["obs"]), states[2]
    )
    np.testing.assert_allclose(output["logit"].detach().numpy(), block["logit"][2], atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_agents_that_do_not_act_are_not_learned_from(name: str) -> None:
    """What they see (here NaN, or 7), and are said to do, changes no parameter."""
    found = []
    for seen, action in ((np.nan, 0), (7.0, 1)):
        policy = remembering(name)
        block, tail, _ = played(policy, MortalRecall, 14)
        samples = policy.collect_mode.get_train_sample(block, tail)
        for key in ("obs", "next_obs"):
            samples[key]["obs"][samples[key]["alive"] == 0] = seen
        samples["action"][samples["obs"]["alive"] == 0] = action
        loss = policy.learn_mode.forward(samples)["total_loss"]
        assert torch.isfinite(loss)
        found.append(policy.learn_mode.state_dict()["model"])
    assert all(torch.equal(found[0][key], found[1][key]) for key in found[0])


def of_three_steps(policy: Any, paid: float) -> Batch:
    """Returns sequences of episodes of three steps; in the second, which is paid, nobody acts."""
    steps, envs, shape = 7, 8, policy.get_attribute("model").hidden_shape
    step = np.repeat(np.arange(steps)[:, None] % 3, envs, 1)
    alive = np.repeat((step != 1)[..., None], 2, 2).astype(np.int8)
    state = np.eye(3, dtype=np.float32)
    obs = {"obs": state[step][:, :, None].repeat(2, 2), "alive": alive, "state": state[step]}
    after = {"obs": state[(step + 1) % 3][:, :, None].repeat(2, 2), "alive": np.roll(alive, -1, 0),
             "state": state[(step + 1) % 3]}  # fmt: skip
    columns = {
        "obs": obs, "next_obs": after, "reward": np.array([0, paid, 2], np.float32)[step],
        "action": np.random.default_rng(0).integers(0, 2, (steps, envs, 2)),
        "done": step == 2, "end": step == 2, "prev_state": np.zeros((steps, envs, *shape), "f4"),
    }  # fmt: skip
    return policy.collect_mode.get_train_sample(Batch(columns, steps)).to_torch()


@pytest.mark.parametrize("name", some(["qmix", "wqmix", "qtran"], 1, "nobody"))
def test_values_cross_steps_of_sequences_in_which_nobody_acts(name: str) -> None:
    """The first step has the value of what is paid in the second, 3, and in the third, 2."""
    learn = {"learning_rate": 0.005, "criterion": "mse", "target_update_freq": 10}
    model = {"rnn": "gru", "rnn_hidden_size": 8, "hidden_size_list": [16]}
    spec = team_spec(2, alive=MultiBinary(2))
    policy = of_spec(name, spec, model=model, collect={"unroll_len": 3}, learn=learn)
    samples = of_three_steps(policy, 3.0)
    for _ in range(130):
        policy.learn_mode.forward(samples)
    model, cfg = policy.get_attribute("model"), policy.get_attribute("cfg")
    steps = as_steps(samples, model, policy.get_attribute("target_model"), cfg)
    target = policy._team_loss(steps, None)[2].view(3, -1).mean(1).tolist()
    assert target == pytest.approx([4.93, 4.98, 2.0], abs=0.8)


@pytest.mark.parametrize("name", [pytest.param("independent_q", marks=pytest.mark.soak), "wqmix"])
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, tmp_path: Path) -> None:
    options = [*MEMORY, *SIZES, "policy.nstep=2", "policy.priority=true",
               "policy.collect.burn_in=1", "policy.learn.batch_size=8"]  # fmt: skip
    one, two = same_after_resume(name, f"{HOME}:MortalRecall", options, tmp_path, 192)
    assert all(torch.equal(one[key], two[key]) for key in one)


def best(name: str, folder: Path, *options: str, steps: int = 2500) -> float:
    few = ["env.collector_env_num=8", "env.evaluator_env_num=8", "env.n_evaluator_episode=40",
           "env.stop_value=inf", "pipeline.logger=[]", "policy.learn.learning_rate=0.005",
           "policy.other.eps.decay=700", "policy.learn.target_update_freq=50", *SIZES]  # fmt: skip
    run = launch(
        env=f"{HOME}:{Recall.__name__}", policy=name, seed=0, exp_name=str(folder),
        max_env_step=steps, overrides=[*few, *options],
    ).run  # fmt: skip
    return float(run.result.best_return)


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.parametrize("name", ["vdn", "independent_q", "qmix"])
def test_what_was_seen_long_ago_is_remembered(name: str, tmp_path: Path) -> None:
    """Of two agents, each is paid for what its first observation told; by chance half as much."""
    assert best(name, tmp_path / "memory", *MEMORY) > 1.9
    assert best(name, tmp_path / "none") < 1.5


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.parametrize("suffix", some(["pt2", "ts", "onnx"], 1, "memory"))
def test_an_exported_file_remembers(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where observations have a part `state`; the lines of its page run."""
    monkeypatch.chdir(tmp_path)
    launch(
        env=f"{HOME}:MortalRecall", policy="vdn", seed=0, exp_name="run", max_env_step=32,
        overrides=["pipeline.logger=[]", "env.n_evaluator_episode=1",
                   "env.evaluator_env_num=1", *MEMORY],
    )  # fmt: skip
    assert main(["export", "run", "--trust", "-o", f"policy.{suffix}"]) == 0
    assert "actions" in capsys.readouterr().out
    page = Path(f"policy.{suffix}.md").read_text()
    exec(page.partition("```python\n")[2].partition("```")[0], {})
    assert capsys.readouterr().out.strip() in ("[[0 0]]", "[[0 1]]", "[[1 0]]", "[[1 1]]")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": {"rnn": "gru"}}, "unroll_len: a recurrent network learns from sequences"),
        ({"collect": {"unroll_len": 4}}, "unroll_len: vdn learns from single steps"),
        ({"collect": {"burn_in": 4}}, "burn_in: vdn learns from single steps"),
        ({"model": {"rnn": "rnn"}}, r"model.rnn"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        made("vdn", Recall(), **options)
