"""`dicore benchmark`: rows are trained once, resumed, and shown as they were measured."""

from __future__ import annotations

import base64
import json
import re
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock, Timeout

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main
from dicore.errors import ConfigError, UsageError
from dicore.run.launch import TrainRequest, launch
from dicore_tools.multi_seed.process_pool import SeedRun
from dicore_tools.results.page import collect_results, write_page
from dicore_tools.results.plan import Plan, Row, read_plan
from dicore_tools.results.records import Record, RecordFile
from tests.tools.reports.test_curves import make_run

TABLE = """
title = "Small"
seeds = [0, 1]
n_episode = 3
overrides = ["env.evaluator_env_num=3", "pipeline.logger=[]", "policy.eval.evaluator.eval_freq=64"]
[scores]
cartpole = [0, 500]
other = [0, 10]
[[row]]
env = "cartpole"
policy = "dqn"
max_env_step = 700
stop_value = 500
overrides = ["policy.learn.update_per_collect=4", "policy.learn.batch_size=16"]
note = "A note."
[[row]]
name = "easy"
env = "cartpole"
policy = "ppo"
max_env_step = 2000
stop_value = 15
overrides = ["policy.learn.epoch_per_collect=2"]
"""


@pytest.fixture
def table(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of two rows; runs train in this process, which is faster."""
    monkeypatch.setattr("dicore_tools.results.training.ProcessPool", InTurn)
    InTurn.started = []
    file = here / "small.toml"
    file.write_text(TABLE)
    return file


class InTurn:
    """Trains one run after the other."""

    started: list[TrainRequest]

    def __init__(self, jobs: int) -> None: ...

    def __enter__(self) -> InTurn:
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, requests: Any) -> Any:
        for request in requests:
            self.started.append(request)
            yield request, SeedRun.of(request.seed, launch(request))


def records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_rows_are_trained_once_and_shown(table: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", str(table), "--only", "easy"]) == 0
    assert "small.md: 2 rows, no runs missing" in capfd.readouterr().out
    page = table.with_suffix(".md").read_text()
    assert "| `cartpole_dqn` | cartpole_dqn v1 | `dqn` | not run |" in page
    assert main(["benchmark", str(table)]) == 0
    assert [request.seed for request in InTurn.started] == [0, 1, 0, 1]
    found = records(table.with_suffix(".jsonl"))
    assert [(each["row"], each["seed"]) for each in found] == [
        ("cartpole_dqn", 0), ("cartpole_dqn", 1), ("easy", 0), ("easy", 1),
    ]  # fmt: skip
    for each in found:
        folder = f"runs/benchmark/{each['row']}-{each['settings']}/seed_{each['seed']}"
        result = json.loads((Path(folder) / "run.json").read_text())["result"]
        assert {key: each[key] for key in ("stop", "env_step", "wall_s")}.items() <= result.items()
        assert each["stop"] is (each["row"] == "easy")
        assert len(each["returns"]) == len(each["last_returns"]) == 3
        assert each["cpu_s"] == result["cpu_s"] > 0
        assert each["curve"][-1][0] == each["env_step"]
    page = table.with_suffix(".md").read_text()
    steps = [each["env_step"] for each in found[2:]]
    low, median, high = (f"{n:.3g}" if n < 1000 else f"{n / 1000:.3g}k"
                         for n in (min(steps), statistics.median(steps), max(steps)))  # fmt: skip
    cell = median if low == high else f"{median} ({low} to {high})"
    assert f"| `easy` | cartpole_ppo v1 | `ppo` | 2 of 2 | {cell} |" in page
    assert "| `cartpole_dqn` | cartpole_dqn v1 | `dqn` | 0 of 2 | > " in page
    assert "`cartpole_dqn`: A note." in page
    assert "dicore train -e cartpole -p ppo -s 0 -s 1 --max-env-step 2000" in page
    assert (table.parent / "small_files/cartpole.svg").is_file()
    InTurn.started.clear()
    capfd.readouterr()
    assert main(["benchmark", str(table), "-q"]) == 0
    assert not InTurn.started
    assert capfd.readouterr().out == f"{table.with_suffix('.md')}: 2 rows, no runs missing\n"


def test_changed_options_are_trained_again(
    table: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the preset changed; rows of other settings are not shown."""
    words = ["benchmark", str(table), "--only", "easy"]
    assert main(words) == 0
    before = records(table.with_suffix(".jsonl"))
    table.write_text(TABLE.replace("epoch_per_collect=2", "epoch_per_collect=3"))
    assert main([*words, "--list"]) == 0
    last = capfd.readouterr().out.splitlines()[-1]
    assert last.split() == ["easy", "cartpole", "ppo", "0", "0,", "1"]
    assert main([*words, "--report"]) == 0
    assert "| `easy` | cartpole_ppo v1 | `ppo` | not run |" in table.with_suffix(".md").read_text()
    assert main(words) == 0
    after = records(table.with_suffix(".jsonl"))
    assert [each["seed"] for each in after] == [each["seed"] for each in before]
    assert {each["settings"] for each in after}.isdisjoint(each["settings"] for each in before)
    from dicore_contrib_envs import presets

    plan = read_plan(table)
    monkeypatch.setitem(presets.CARTPOLE_PPO["policy"], "discount_factor", 0.9)
    changed = read_plan(table)
    assert [plan.settings(row) == changed.settings(row) for row in plan.rows] == [True, False]


def test_an_interrupted_run_is_resumed(table: Path) -> None:
    """It is not trained from the start again."""
    text = table.read_text().replace("seeds = [0, 1]", "seeds = [3]").replace("= 500", "= inf")
    table.write_text(text)
    (row,) = (row for row in read_plan(table).rows if row.name == "cartpole_dqn")
    folder = Path(f"runs/benchmark/{row.name}-{read_plan(table).settings(row)}/seed_3")
    launch(replace(row.request(3, folder), max_env_step=640))
    assert main(["benchmark", str(table), "--only", "cartpole_dqn"]) == 0
    record = json.loads((folder / "run.json").read_text())
    assert [each["env_step"] for each in record["resumed"]] == [640]
    (found,) = records(table.with_suffix(".jsonl"))
    assert found["env_step"] == record["result"]["env_step"] >= 700
    assert [step for step, _ in found["curve"]][-1] >= 700


def test_a_run_that_fails_leaves_the_others_alone(
    table: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def run(self: InTurn, requests: Any) -> Any:
        for request in requests:
            if request.seed == 0:
                yield request, SeedRun.failed(0, OSError("the disk is full"))
            else:
                yield request, SeedRun.of(1, launch(request))

    monkeypatch.setattr(InTurn, "run", run)
    assert main(["benchmark", str(table), "--only", "easy"]) == 1
    out = capfd.readouterr().out
    assert "easy, seed 0: OSError: the disk is full" in out
    assert "2 rows, 3 runs missing" not in out
    assert "2 rows, 1 run missing" in out
    assert "| 1 of 1, 1 not run |" in table.with_suffix(".md").read_text()


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("seeds = [0]", ["row: no rows"]),
        ("row = 3", ["row: "]),
        ("[[row]]\nenv = 'cartpole'", [r"row\[0\]: expected env and policy, or config"]),
        ("[[row]]\nenv='cartpole'\npolicy='dqn'\nsede=1", [r"row\[0\].sede: unknown.*'seeds'"]),
        (
            "[[row]]\nenv='cartpole'\npolicy='dqm'\n[[row]]\nenv='cartpole'\npolicy='dqn'\nseeds=[1,1]",
            [r"row cartpole_dqm: .*dqm", r"row\[1\].seeds: expected different seeds"],
        ),
        (
            "[[row]]\nenv='cartpole'\npolicy='dqn'\n[[row]]\nenv='cartpole'\npolicy='dqn'",
            ["two rows are named 'cartpole_dqn'"],
        ),
        ("[[row]]\nenv='cartpole'\npolicy='dqn'\nname='../x'", ["'../x' is not a folder name"]),
        (
            "[[row]]\nenv='cartpole'\npolicy='dqn'\noverrides=['policy.lern.x=1']\nmax_env_step=0",
            [r"row\[0\].max_env_step: expected >= 1"],
        ),
        ("[scores]\nx=[1]\n[[row]]\nenv='cartpole'\npolicy='dqn'", ["scores"]),
        ("[anchors.x]\n'PPO, 1M'=inf\n[[row]]\nenv='cartpole'\npolicy='dqn'",
         [r"anchors.x.PPO, 1M: expected a finite return"]),
        ("[anchors]\nx=3\n[[row]]\nenv='cartpole'\npolicy='dqn'", ["anchors"]),
        ("[scores]\nx=[1,1]\n[[row]]\nenv='cartpole'\npolicy='dqn'", ["scores.x: expected two"]),
    ],
)  # fmt: skip
def test_wrong_files_train_nothing(here: Path, text: str, messages: list[str]) -> None:
    (here / "x.toml").write_text(text)
    for message in messages:
        with pytest.raises(ConfigError, match=message):
            read_plan(here / "x.toml")
    assert main(["benchmark", "x.toml"]) == 2
    assert [path.name for path in here.iterdir()] == ["x.toml"]


@pytest.mark.parametrize("value", [475.0, -180.5, 1234567.0, 0.1 + 0.2, float("inf")])
def test_the_command_of_a_row_has_its_stop_value_unrounded(value: float) -> None:
    row = Row(name="x", env="cartpole", policy="dqn", stop_value=value)
    assert row.request().overrides[1] == row.words[1]
    assert float(row.words[1].split("=")[1]) == value
    assert "env.stop_value=475" in Row(name="x", stop_value=475.0).words


def test_a_pattern_without_rows_and_a_broken_record_are_refused(
    table: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["benchmark", str(table), "--only", "nothing*"]) == 2
    assert "no row matches 'nothing*'" in capfd.readouterr().err
    table.with_suffix(".jsonl").write_text('{"row": "easy"}\n')
    with pytest.raises(UsageError, match=r"small.jsonl:1: not a record"):
        RecordFile(table.with_suffix(".jsonl"))
    assert main(["benchmark", str(table)]) == 2
    assert not InTurn.started


def record(plan: Plan, name: str, seed: int, **values: Any) -> Record:
    row = next(row for row in plan.rows if row.name == name)
    return Record(**{
        "row": name, "settings": plan.settings(row), "env": plan.task(row), "policy": "dqn",
        "seed": seed, "stop": True, "env_step": 1000, "train_iter": 1, "wall_s": 1.0,
        "returns": (10.0,), **values,
    })  # fmt: skip


def test_the_file_of_a_lock_is_removed_while_it_is_held(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else two processes could hold locks of two files, and one overwrite the other's record."""
    removed = []

    def unlink(file: Path, *, missing_ok: bool = False) -> None:
        with pytest.raises(Timeout):
            FileLock(file, is_singleton=False).acquire(timeout=0)
        removed.append(file)

    plan = read_plan(table)
    monkeypatch.setattr(Path, "unlink", unlink)
    RecordFile(table.with_suffix(".jsonl")).add(record(plan, plan.rows[0].name, 0))
    assert len(removed) == 1


def test_an_unsolved_seed_counts_as_more_than_its_budget(here: Path) -> None:
    (here / "t.toml").write_text(
        "[scores]\ncartpole=[0, 500]\nacrobot=[-500, 0]\n"
        "[anchors.cartpole]\n'PPO, a paper, 1M' = 300\n[[row]]\nenv='cartpole'\npolicy='dqn'\n"
        "[[row]]\nenv='acrobot'\npolicy='dqn'\n"
    )
    plan = read_plan("t.toml")
    found = [
        record(
            plan,
            "cartpole_dqn",
            0,
            env_step=12_999,
            curve=((0, 9.0), (12_345, 480.0)),
            returns=(250.0, 250.0),
        ),
        record(plan, "cartpole_dqn", 1, stop=False, env_step=50_000, returns=(250.0,)),
        record(plan, "cartpole_dqn", 2, stop=False, env_step=50_000, returns=(250.0,)),
        record(plan, "acrobot_dqn", 0, returns=(-250.0,)),
        record(plan, "cartpole_dqn", 7),
    ]
    results = collect_results(plan, {each.key: each for each in found})
    assert [len(each.records) for each in results] == [3, 1], "seed 7 is not in the plan"
    write_page(plan, results, here / "t.md", "dicore benchmark t.toml")
    page = (here / "t.md").read_text()
    assert "| 1 of 3 | > 50k (12.3k to > 50k) |" in page
    assert "Published, as lines in the picture: PPO, a paper, 1M: 300.0." in page
    assert "PPO, a paper, 1M" in (here / "t_files/cartpole.svg").read_text()
    profiles = (here / "t_files/all_profiles.svg").read_text()
    assert "dqn (2 environments, 4 runs)" in profiles
    assert "![Score profiles: " in page
    assert not (here / "t_files/all_costs.svg").exists(), "no record has its CPU time"
    records = [replace(each, cpu_s=7200.0) for each in found]
    write_page(plan, collect_results(plan, {each.key: each for each in records}), here / "t.md", "")
    costs = (here / "t_files/all_costs.svg").read_text()
    assert ">cartpole_dqn<" in costs
    assert ">acrobot_dqn<" in costs
    assert "(t_files/all_costs.svg)" in (here / "t.md").read_text()
    assert "| 250.0 [250.0, 250.0] |" in page
    assert "| `dqn` | cartpole, acrobot | 0.500 [0.500, 0.500] |" in page


def test_a_report_of_the_runs_draws_the_same_pictures(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Score profile, cost against score, and curves with published returns as lines."""
    (here / "t.toml").write_text(
        "title='Small tasks'\n[scores]\ncartpole=[0, 500]\nacrobot=[-500, 0]\n"
        "[anchors.cartpole]\n'PPO, a paper, 1M' = 300\n[[row]]\nenv='cartpole'\npolicy='dqn'\n"
        "[[row]]\nenv='acrobot'\npolicy='dqn'\n"
    )
    make_run(here / "runs/cartpole_dqn_s0", [(0, 9.0), (1000, 480.0)])
    asked = ["report", "runs", "-o", "report.html", "--benchmark", "t.toml"]
    assert main([*asked, "--records", "none.jsonl"]) == 2
    assert "--records none.jsonl: there is no such file" in capsys.readouterr().err
    plan, file = read_plan("t.toml"), RecordFile(here / "t.jsonl")
    file.add(record(plan, "acrobot_dqn", 0, settings="of before"))
    assert main(asked) == 2
    assert "no record is of a row of t.toml as it is now" in capsys.readouterr().err
    curve = ((0, 9.0), (1000, 480.0))
    file.add(record(plan, "cartpole_dqn", 0, curve=curve, cpu_s=7200.0, returns=(250.0,)))
    file.add(record(plan, "acrobot_dqn", 0, returns=(-250.0,)))
    assert main(asked) == 0
    page = (here / "report.html").read_text(encoding="utf-8")
    pictures = re.findall(r'<img alt="([^"]*)" src="data:image/svg\+xml;base64,([^"]*)"', page)
    drawn = {alt.split(":")[0]: base64.b64decode(data).decode() for alt, data in pictures}
    assert list(drawn) == [
        "Score profiles", "Core-hours of a training against the score of each row", "cartpole",
    ]  # fmt: skip
    assert "dqn (2 environments, 2 runs)" in drawn["Score profiles"]
    assert "PPO, a paper, 1M" in drawn["cartpole"]
    assert page.index("<h2>Small tasks</h2>") < page.index("<h2>Mean return of evaluations</h2>")
    assert main(["report", "runs", "--records", "t.jsonl"]) == 2
    assert "of which benchmark?" in capsys.readouterr().err


OWN = """
import gymnasium, numpy as np

class Own(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(2, np.float32), 1.0, self.steps >= 5, False, {}
"""


def test_an_own_environment_is_evaluated_and_what_others_saved_needs_trust(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A run folder whose config names other code than the row is not run without --trust."""
    (here / "own.py").write_text(OWN)
    (here / "other.py").write_text(f"open('ran', 'w').close()\n{OWN}")
    (here / "own.toml").write_text(
        'seeds = [0]\nmax_env_step = 64\n[[row]]\nenv = "./own.py:Own"\npolicy = "ppo"\n'
        'overrides = ["policy.collect.n_sample=32", "policy.learn.batch_size=16"]\n'
    )
    assert main(["benchmark", "own.toml"]) == 0
    (found,) = records(here / "own.jsonl")
    assert (found["row"], set(found["returns"])) == ("own.py_Own_ppo", {5.0})
    (folder,) = (here / "runs/benchmark").glob("own.py_Own_ppo-*/seed_0")
    (here / "own.jsonl").unlink()
    config = folder / "config.json"
    config.write_text(config.read_text().replace("./own.py:Own", "./other.py:Own"))
    capfd.readouterr()
    monkeypatch.setattr("dicore_registry.code_paths._given", set())
    assert main(["benchmark", "own.toml"]) == 2
    said = capfd.readouterr().out
    assert "is a code path" in said
    assert "--trust resumes" in said
    assert not (here / "ran").exists()


def test_rows_from_data_sets_have_a_table_of_their_own(here: Path) -> None:
    offline = "['pipeline.type=serial_offline','pipeline.dataset.path=d.npz']"
    (here / "t.toml").write_text(
        "[scores]\ncartpole=[0, 500]\nacrobot=[-500, 0]\n[normalised]\ncartpole=[20, 480]\n"
        "[[row]]\nenv='cartpole'\npolicy='dqn'\n"
        f"[[row]]\nenv='cartpole'\npolicy='discrete_cql'\noverrides={offline}\n"
        f"[[row]]\nenv='acrobot'\npolicy='discrete_cql'\noverrides={offline}\n"
    )
    plan = read_plan("t.toml")
    found = [
        record(plan, "cartpole_dqn", 0, curve=((0, 9.0), (999, 480.0))),
        record(plan, "cartpole_discrete_cql", 0, env_step=0, train_iter=300_000,
               curve=((0, 9.0), (0, 300.0)), returns=(480.0,), last_returns=(250.0, 250.0)),
        record(plan, "cartpole_discrete_cql", 1, env_step=0, returns=(480.0,), curve=()),
    ]  # fmt: skip
    write_page(plan, collect_results(plan, {each.key: each for each in found}), here / "t.md", "")
    page = (here / "t.md").read_text()
    table = page[page.index("From data sets:") :]
    ours = next(line for line in table.splitlines() if line.startswith("| `cartpole_discrete_cql`"))
    assert "`discrete_cql` | 2, 1 not run | " in ours
    assert ours.endswith("| 75.0 [50.0, 100.0] |"), "of the last, or of the best"
    assert "`acrobot_discrete_cql` | none | `discrete_cql` | not run |" in table
    assert "cartpole 20 is 0, 480 is 100; acrobot -500 is 0, 0 is 100" in " ".join(page.split())
    assert "cartpole_discrete_cql" not in (here / "t_files/cartpole.svg").read_text()
