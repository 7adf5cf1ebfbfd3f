"""Learning curves out of run folders made by hand: read, grouped, averaged, drawn."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicore.cli import main
from dicore.data.json_codec import dumps
from dicore.errors import UsageError
from dicore_tools.reports.curves import TAG, Curve, Group, find_runs, group_runs, read_curve

CONFIG = {"env": {"type": "cartpole", "stop_value": 475.0}, "policy": {"type": "dqn", "nstep": 1}}


def make_run(
    folder: Path, points: list[tuple[int, float]], *, stop: bool = False, **config: Any
) -> Path:
    (folder / "log").mkdir(parents=True)
    content = {"dicore": "0", "config": {**CONFIG, **config}}
    (folder / "config.json").write_text(dumps(content))
    (folder / "run.json").write_text(json.dumps({"result": {"stop": stop} if points else None}))
    lines = [
        json.dumps({"step": step, "train_iter": step // 2, "time": step / 100, TAG: value})
        for step, value in points
    ]
    (folder / "log/metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def curve(points: list[tuple[float, float]], *, solved: bool = False) -> Curve:
    x, y = np.array(points, np.float64).T
    return Curve(Path("x"), x, y, CONFIG, solved)


def test_a_curve_is_what_was_logged(tmp_path: Path) -> None:
    make_run(tmp_path / "a", [(0, 9.0), (100, 20.0), (200, 30.0)], stop=True)
    (run,) = find_runs([tmp_path / "a"])
    found = read_curve(run)
    assert (found.x.tolist(), found.y.tolist()) == ([0, 100, 200], [9, 20, 30])
    assert found.solved
    assert read_curve(run, axis="train_iter").x.tolist() == [0, 50, 100]
    assert read_curve(run, axis="wall").x.tolist() == [0, 1, 2]


def test_running_and_killed_runs_have_what_they_have(tmp_path: Path) -> None:
    """The last line was torn; some values are no numbers; there is no result yet."""
    folder = make_run(tmp_path / "a", [(0, 9.0), (100, 20.0)])
    (folder / "run.json").write_text('{"result": null}')
    with (folder / "log/metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": 150, "train_iter": 1, "time": 2.0, TAG: "NaN"}) + "\n")
        file.write('{"step": 200, "train_iter": 100, "time": 2.0, "evaluator/return_me')
    found = read_curve(*find_runs([folder]))
    assert found.x.tolist() == [0, 100]
    assert not found.solved


def test_runs_are_found_below_folders_once(tmp_path: Path) -> None:
    for name in ("g/seed_1", "g/seed_0", "h"):
        make_run(tmp_path / name, [(0, 1.0)])
    found = find_runs([tmp_path / "g", tmp_path, tmp_path / "g/seed_1"])
    assert [str(run.path.relative_to(tmp_path)) for run in found] == ["g/seed_0", "g/seed_1", "h"]
    (tmp_path / "empty").mkdir()
    for place in ("empty", "nowhere"):
        with pytest.raises(UsageError, match=place):
            find_runs([tmp_path / "h", tmp_path / place])


def test_groups(tmp_path: Path) -> None:
    make_run(tmp_path / "a", [(0, 1.0)])
    make_run(tmp_path / "b", [(0, 1.0)], policy={"type": "dqn", "nstep": 3})
    make_run(tmp_path / "c", [(0, 1.0)], env={"type": "gymnasium", "env_id": "Acrobot-v1"})
    curves = [read_curve(run) for run in find_runs([tmp_path])]

    def labels(by: str | None) -> dict[str, int]:
        return {group.label: len(group.curves) for group in group_runs(curves, by)}

    assert labels(None) == {
        "dqn on cartpole, nstep = 1": 1,
        "dqn on cartpole, nstep = 3": 1,
        "dqn on Acrobot-v1": 1,
    }
    assert labels("policy.nstep") == {"nstep = 1": 2, "nstep = 3": 1}
    assert labels("env") == {"env = cartpole": 2, "env = gymnasium": 1}
    assert len(labels("run")) == 3
    with pytest.raises(UsageError, match=r"policy\.lern"):
        labels("policy.lern")
    with pytest.raises(UsageError, match="is a section") as refused:
        group_runs([configured(learn={"lr": 1})], "policy.learn")
    assert "policy.learn.lr" in str(refused.value.hint)


def configured(**policy: Any) -> Curve:
    env = {"type": "cartpole", "stop_value": policy.pop("stop_value", 475.0)}
    config = {"seed": policy.pop("seed", 0), "env": env, "policy": {"type": "dqn", **policy}}
    x = np.arange(2.0)
    return Curve(Path(f"runs/{policy}"), x, x, config)


def test_a_group_is_of_one_config_whatever_its_seeds_and_ends() -> None:
    runs = [configured(seed=seed, stop_value=100.0 + seed, learn={"lr": 0.1}) for seed in range(3)]
    (group,) = group_runs(runs)
    assert (group.label, len(group.curves)) == ("dqn on cartpole", 3)


def test_labels_say_what_differs_between_groups() -> None:
    runs = [
        configured(learn={"size": 1, "lr": 0.1}),
        configured(learn={"size": 1, "lr": 0.2}),
        configured(seed=1, learn={"size": 1, "lr": 0.1}),
        configured(learn={"more": 5, "size": 1, "lr": 0.2}),
    ]
    found = {group.label: len(group.curves) for group in group_runs(runs)}
    assert found == {
        "lr = 0.1, more = unset": 2, "lr = 0.2, more = unset": 1, "lr = 0.2, more = 5": 1,
    }  # fmt: skip


def test_an_option_that_follows_another_is_not_told_twice() -> None:
    runs = [configured(n=n, inner={"n": n}, other={"n": 7 * n}) for n in (1, 2)]
    assert [group.label for group in group_runs(runs)] == [
        f"policy.n = {n}, policy.other.n = {7 * n}" for n in (1, 2)
    ]


def test_many_differences_are_many_groups_even_if_a_label_cannot_say_them() -> None:
    runs = [configured(a=1, b=2, c=3, d=d, e=d, f=d, g=d) for d in (1, 2)]
    runs.append(configured(a=1, b=2, c=3, d=1, e=1, f=1, g=9))
    groups = group_runs(runs)
    assert len({group.label for group in groups}) == 3
    assert groups[0].label == "d = 1, e = 1, f = 1 and 1 more"


def test_the_mean_is_over_the_runs_that_go_as_far() -> None:
    group = Group(
        "g", [curve([(0, 0), (100, 100)]), curve([(0, 10), (50, 10), (60, 20)]), curve([(0, 2)])]
    )
    grid, mean, low, high, runs = group.middle("std")
    assert (grid[0], grid[-1]) == (0, 60), "where one goes on alone, there is no mean"
    assert (mean[0], runs[0]) == (4, 3)
    assert (mean[-1], runs[-1]) == ((60 + 20) / 2, 2)
    assert set(runs[1:]) == {2}
    spread = np.std([60, 20], ddof=1)
    assert (low[-1], high[-1]) == pytest.approx((40 - spread, 40 + spread))
    _, _, low, high, _ = group.middle("minmax")
    assert (low[-1], high[-1]) == (20, 60)


def test_the_end_of_a_run_is_a_point_of_the_mean() -> None:
    group = Group("g", [curve([(0, 0), (10, end)]) for end in (1, 5)] + [curve([(0, 0), (7.3, 3)])])
    grid, mean, *_, runs = group.middle()
    at = int(np.flatnonzero(grid == 7.3)[0])
    assert (runs[at], runs[at + 1]) == (3, 2)
    assert mean[at] == pytest.approx((0.73 + 3.65 + 3) / 3)


def test_a_solved_run_goes_on_with_its_last_value() -> None:
    group = Group("g", [curve([(0, 0), (10, 500)], solved=True), curve([(0, 0), (100, 100)])])
    grid, mean, *_ = group.middle()
    assert grid[-1] == 100
    assert mean[-1] == 300
    both = Group(
        "g", [curve([(0, 0), (10, 5)], solved=True), curve([(0, 0), (30, 7)], solved=True)]
    )
    grid, mean, *_ = both.middle()
    assert (grid[-1], mean[-1]) == (30, 6)


@given(
    values=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30),
    window=st.integers(1, 40),
)
def test_smoothing_is_the_mean_of_the_last_few(values: list[float], window: int) -> None:
    smoothed = curve([(float(i), value) for i, value in enumerate(values)]).smooth(window)
    expected = [np.mean(values[max(0, i - window + 1) : i + 1]) for i in range(len(values))]
    np.testing.assert_allclose(smoothed.y, expected, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("window", [1, 2])
def test_one_large_value_spoils_only_its_window(window: int) -> None:
    smoothed = curve([(0, 1e17), (1, 2.5), (2, 3.5), (3, 4.5)]).smooth(window)
    assert smoothed.y[2:].tolist() == ([3.5, 4.5] if window == 1 else [3, 4])


def plot(*arguments: Any, code: int = 0) -> None:
    assert main(["plot", *map(str, arguments)]) == code


def drawer() -> Any:
    pytest.importorskip("matplotlib")
    from dicore_tools.reports.picture import draw

    return draw


def test_a_picture_says_what_it_shows(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    for seed in range(3):
        make_run(tmp_path / f"g/seed_{seed}", [(0, 9.0 + seed), (500, 100.0 * seed), (1000, 300.0)])
    make_run(tmp_path / "other", [(0, 5.0), (1000, 50.0)], policy={"type": "random"})
    out = tmp_path / "new/curves.svg"
    plot(tmp_path, "-o", out)
    assert "dqn on cartpole, 3 runs; random on cartpole, 1 run\n" in capfd.readouterr().out
    words = " ".join(ET.fromstring(out.read_text()).itertext())
    for text in (
        "4 runs", "env steps", "mean return of an evaluation", "stop value 475",
        "dqn on cartpole (mean of 3, ± std)", "random on cartpole", "1k",
    ):  # fmt: skip
        assert text in words
    first = out.read_bytes()
    plot(tmp_path, "-o", out)
    assert out.read_bytes() == first, "the same runs, the same file"
    plot(tmp_path, "-o", out, "--x", "wall", "--band", "minmax", "--title", "mine")
    words = " ".join(ET.fromstring(out.read_text()).itertext())
    for text in ("wall time in s", "min to max", "mine"):
        assert text in words
    for ending in ("png", "pdf"):
        plot(tmp_path, "-o", tmp_path / f"curves.{ending}", "-q")
    assert (tmp_path / "curves.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert (tmp_path / "curves.pdf").read_bytes()[:5] == b"%PDF-"


@pytest.mark.parametrize("values", [(float("inf"),), (475.0, 195.0), (475.0, float("inf"))])
def test_a_picture_of_runs_without_one_goal_has_no_line_for_it(
    tmp_path: Path, values: tuple[float, ...]
) -> None:
    for number, value in enumerate(values):
        env = {"type": "cartpole", "stop_value": value}
        make_run(tmp_path / str(number), [(0, 9.0), (100, 90.0)], env=env)
    out = tmp_path / "x.svg"
    assert main(["plot", str(tmp_path), "-o", str(out)]) == 0
    assert "dqn on cartpole" in out.read_text()
    assert "stop value" not in out.read_text()


def test_a_picture_shows_the_curves(tmp_path: Path) -> None:
    """The drawn lines have the logged numbers, the mean line their means."""
    draw = drawer()
    for seed in range(2):
        make_run(tmp_path / f"s{seed}", [(0, 10.0 * seed), (100, 30.0)])
    curves = [read_curve(run) for run in find_runs([tmp_path])]
    (axes,) = draw(group_runs(curves), band="minmax").axes
    lines = [np.asarray(line.get_xydata()).tolist() for line in axes.lines]
    assert [[0, 0], [100, 30]] in lines
    assert [[0, 10], [100, 30]] in lines
    middle = next(line for line in lines if len(line) > 2)
    assert (middle[0], middle[-1]) == ([0, 5], [100, 30])
    (band,) = axes.collections
    edges = band.get_paths()[0].get_extents()
    assert (edges.x0, edges.y0, edges.x1, edges.y1) == (0, 0, 100, 30)


def test_seeds_of_one_evaluation_are_seen(tmp_path: Path) -> None:
    """A line through one point is not."""
    draw = drawer()
    for seed in range(3):
        make_run(tmp_path / f"s{seed}", [(100, 10.0 * seed)])
    (axes,) = draw(group_runs([read_curve(run) for run in find_runs([tmp_path])])).axes
    assert [line.get_marker() for line in axes.lines[:4]] == ["o"] * 4
    assert np.asarray(axes.lines[3].get_xydata()).tolist() == [[100, 10]]
    assert len(axes.collections) == 2


def test_runs_that_ended_early_leave_a_dashed_mean(tmp_path: Path) -> None:
    draw = drawer()
    for seed, end in enumerate((50, 100, 100)):
        make_run(tmp_path / f"s{seed}", [(0, 1.0), (end, 3.0)])
    curves = [read_curve(run) for run in find_runs([tmp_path])]
    (axes,) = draw(group_runs(curves)).axes
    means = {line.get_linestyle(): line for line in axes.lines if len(line.get_xdata()) > 2}
    assert np.asarray(means["-"].get_xdata()).tolist()[-1] == 50
    assert np.asarray(means["--"].get_xdata()).tolist()[::len(means["--"].get_xdata()) - 1] == [
        50, 100,
    ]  # fmt: skip
    (entry, *_) = axes.get_legend_handles_labels()[1]
    assert entry == "dqn on cartpole (mean of 3, ± std; dashed: fewer)"


def test_every_group_can_be_told_from_the_others(tmp_path: Path) -> None:
    """Also a run of one evaluation, and more groups than colours; the legend hides no curve."""
    draw = drawer()
    runs = [configured(learning_rate_of_the_encoder=0.1 * n, batch_size=n) for n in range(9)]
    runs.append(Curve(Path("x"), np.array([1.0]), np.array([2.0]), runs[0].config | {"z": 1}))
    figure = draw(group_runs(runs))
    (axes,) = figure.axes
    looks = {(line.get_color(), line.get_linestyle()) for line in axes.lines[:10]}
    assert len(looks) == 10
    assert axes.lines[9].get_marker() == "o"
    (legend,) = figure.legends
    figure.draw_without_rendering()
    assert not legend.get_window_extent().overlaps(axes.get_window_extent())


@pytest.mark.parametrize("name", ["n", "a_name_that_needs_more_than_a_single_line_of_a_legend" * 2])
def test_a_legend_of_thirty_is_inside_the_picture(name: str) -> None:
    figure = drawer()(group_runs([configured(**{name: n, "second_option": n}) for n in range(30)]))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    legend = figure.legends[0] if figure.legends else axes.get_legend()
    assert legend is not None
    inner, outer = legend.get_window_extent(), figure.bbox
    assert inner.x0 >= 0
    assert inner.y0 >= 0
    assert inner.x1 <= outer.x1
    assert inner.y1 <= outer.y1
    assert axes.get_window_extent().height > 200


def test_a_summary_whose_folders_are_none_has_no_runs(tmp_path: Path) -> None:
    file = tmp_path / "summary.json"
    file.write_text(json.dumps({"runs": [{"folder": 3}, {"folder": "/"}, {"folder": ".."}]}))
    with pytest.raises(UsageError, match="no runs found"):
        find_runs([file])


def test_a_summary_of_seeds_stands_for_its_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for seed in range(2):
        make_run(tmp_path / f"runs/x_s{seed}", [(0, 1.0), (9, 2.0)])
    told = [{"folder": f"runs/x_s{seed}"} for seed in range(2)] + [{"folder": None}]
    summary = tmp_path / "runs/x_summary.json"
    summary.write_text(json.dumps({"runs": told}))
    names = ["x_s0", "x_s1"]
    assert [run.path.name for run in find_runs(["runs/x_summary.json"])] == names
    assert [run.path.name for run in find_runs(sorted(Path("runs").glob("x_s*")))] == names
    moved = (tmp_path / "runs").rename(tmp_path / "moved")
    assert [run.path.name for run in find_runs([moved / "x_summary.json"])] == names
    for other in (moved / "x_s0/run.json", moved / "x_s0/log/metrics.jsonl"):
        plot(other, code=2)
        assert "not a summary of runs" in capsys.readouterr().err


def test_curves_in_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_run(tmp_path / "a", [(0, 0.0), (1000, 70.0)])
    plot(tmp_path, "--text")
    label, line = capsys.readouterr().out.splitlines()
    assert label == "dqn on cartpole (1 run)"
    levels = ["▁▂▃▄▅▆▇█".index(sign) for sign in re.findall("[▁-█]", line)]
    assert levels == sorted(levels)
    assert (levels[0], levels[-1], len(levels)) == (0, 7, 40)
    assert "first 0.0, last 70.0, best 70.0 (0 to 1000 env steps)" in line
    plot(tmp_path, "--text", "--x", "wall")
    assert capsys.readouterr().out.endswith(" to 10.0 s)\n")
    monkeypatch.setattr("dicore_tools.reports.text.supports_blocks", lambda: False)
    plot(tmp_path, "--text")
    assert capsys.readouterr().out.isascii()
    far = {"type": "gymnasium", "env_id": "Pendulum-v1"}
    make_run(tmp_path / "b", [(0, -1000.0), (1000, -200.0)], env=far)
    plot(tmp_path, "--text")
    rows = [each[2:42] for each in capsys.readouterr().out.splitlines()[1::2]]
    assert [row[0] + row[-1] for row in rows] == ["_#", "_#"], "each environment has its scale"


def test_a_mean_of_fewer_runs_is_told_in_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, end in (("a", 50), ("b", 100), ("c", 100)):
        make_run(tmp_path / name, [(0, 0.0), (end, float(end))])
    plot(tmp_path, "--text")
    label = capsys.readouterr().out.splitlines()[0]
    assert label == "dqn on cartpole (3 runs; beyond 50 env steps the mean of 2)"


def test_a_run_without_the_number_does_not_keep_the_others_from_being_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run(tmp_path / "a", [(0, 1.0), (5, 2.0)])
    make_run(tmp_path / "b", [])
    (make_run(tmp_path / "c", [(0, 1.0)]) / "log/metrics.jsonl").write_text("no json\n{}\n")
    plot(tmp_path, "--text")
    said = capsys.readouterr()
    assert said.out.startswith("dqn on cartpole (1 run)\n")
    first, second = said.err.splitlines()
    assert first.startswith(f"warning: skipped {tmp_path / 'b'}: no finite 'evaluator/return_mean'")
    assert "not a JSON object" in second


def test_what_cannot_be_plotted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path / "a", [(0, 1.0)])
    make_run(tmp_path / "b", [])
    for words, text in {
        "a -y evaluator/return_maen": "did you mean 'evaluator/return_mean'?",
        "a -y return": "did you mean 'evaluator/return_mean'?",
        "b": "the run has logged nothing yet",
        "a -o x.gif": ".png, .svg, .pdf",
        "a --smoth 3": "did you mean '--smooth'",
    }.items():
        plot(*words.split(), code=2)
        assert text in capfd.readouterr().err
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    plot("a", code=2)
    assert (
        "needs the package matplotlib\n  hint: pip install 'dicore-tools[plot]'"
        in capfd.readouterr().err
    )
    assert not [*tmp_path.glob("*.*")]


def test_a_run_that_collects_nothing_is_drawn_over_its_updates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "run", [])
    lines = [
        json.dumps({"step": 0, "train_iter": updates, "time": 1.0, TAG: value})
        for updates, value in ((100, 3.0), (300, 7.0))
    ]
    (run / "log/metrics.jsonl").write_text("".join(f"{line}\n" for line in lines))
    assert main(["plot", str(run), "--text"]) == 0
    assert "first 3.0, last 7.0, best 7.0 (100 to 300 updates)" in capsys.readouterr().out
    assert main(["report", str(run), "-o", str(tmp_path / "page.html")]) == 0
    assert 'id="axis1" checked' in (tmp_path / "page.html").read_text()
