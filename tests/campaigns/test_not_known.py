"""A prediction whose interval is so wide that it says nothing: no table, sentence or chart has its figure."""

import csv
import io
import json
import re
from typing import Any

import pytest
from werkzeug.test import Client

from blklab.campaigns import runs as run_tables
from blklab.campaigns.charts.offered_load import load_section
from blklab.campaigns.results import ramp_table
from blklab.campaigns.view import ExperimentView
from blklab.outcome import LoadRamp, LoadStep, Outcome
from blklab.store import query
from blklab.store.campaigns import Store
from blklab.store.series import SeriesPoint
from blklab.web.site import Site
from tests.campaigns import made
from tests.campaigns.conftest import Reported
from tests.conftest import Run

IOPS = {"near": 50_000.0, "far": 77_777.0}  # That of far is not known
FIGURE = re.compile(r"\b77,?77|\b77[.]8\b|\b77,?80")


def predict(labels: made.Labels) -> tuple[dict[str, Any], list[SeriesPoint]]:
    wide = labels["stack"] == "far"
    outcome = made.measured(labels, IOPS[labels["stack"]])
    interval = {"iops": [0.2, 5.2] if wide else [0.8, 1.25], "p99": [0.1, 9.0] if wide else [0.5, 2.0]}
    outcome |= {"devices": [], "cpu": None, "fio": None, "simulated_ios": 1000, "interval": interval}
    return outcome, made.series(IOPS[labels["stack"]])


def add(store: Store, **words: Any) -> int:
    labels = [{"stack": stack, "workload": "randread"} for stack in IOPS]
    return made.add(store, labels, predict, runner="sim", raw="", **words)


@pytest.fixture
def number(store: Store) -> int:
    return add(store)


def text_of(html: str) -> str:
    return re.sub(r"<[^>]+>", " ", html)


def test_json_and_csv_keep_the_figure_and_say_that_it_is_not_known(run: Run, number: int) -> None:
    near, far = json.loads(run("runs", "show", number, "--json").out)
    assert (near["interval"]["known"], far["interval"]["known"]) == (True, False)
    assert far["read"]["iops"] == 77_777
    rows = list(csv.DictReader(io.StringIO(run("runs", "export", number, "--as", "csv").out)))
    assert [(row["iops"], row["known"]) for row in rows] == [("50000.0", "yes"), ("77777.0", "no")]


def test_a_comparison_has_no_verdict_on_figures_that_are_not_known(run: Run, number: int) -> None:
    done = run("compare", number, "--between", "stack", "--metric", "iops")
    assert "not known" in done.out
    assert not FIGURE.search(done.out), done.out
    assert "better" not in done.out and "worse" not in done.out
    document = json.loads(run("compare", number, "--between", "stack", "--metric", "iops", "--json").out)
    (row,) = document["rows"]
    assert [value["known"] for value in row["values"]] == [True, False]
    assert row["values"][1]["mean"] == 77_777
    assert (row["differences"][0]["verdict"], row["differences"][0]["known"]) == ("unknown", False)
    for options in ((), ("--plain",)):
        condition = ("--fail-if", "iops > 1.1*baseline")
        done = run("compare", number, "--between", "stack", "--metric", "iops", *condition, *options)
        assert done.status == 4, done.err
        assert "the prediction is not known: measure" in done.err


def test_a_ratio_is_known_if_the_error_is_common_to_both(run: Run, store: Store) -> None:
    def make_prediction(factor: float) -> made.Measure:
        def predict_with_shared(labels: made.Labels) -> tuple[dict[str, Any], list[SeriesPoint]]:
            outcome, points = predict(labels)
            outcome["interval"] = {**outcome["interval"], "shared": 0.97}
            for direction in ("read", "write"):
                figures = outcome[direction]
                outcome[direction] = {**figures, "iops": figures["iops"] * factor}
            return outcome, points

        return predict_with_shared

    labels = [{"stack": "far", "workload": "randread"}]
    made.add(
        store, labels, make_prediction(1.0), runner="sim", raw="", name="old", options=lambda _labels: {"nice": "0"}
    )
    made.add(
        store, labels, make_prediction(1.5), runner="sim", raw="", name="new", options=lambda _labels: {"nice": "0"}
    )
    done = run("compare", "old", "new", "--metric", "iops")
    assert "the ratio is known, the figures are not" in done.out, done.out
    assert "+50.0 %" in done.out
    assert not FIGURE.search(done.out), done.out


def test_a_report_leaves_it_out_of_charts_and_says_so(reported: Reported, number: int) -> None:
    report = reported(str(number))
    for chart in report.charts:
        if not chart.name.startswith("members"):
            assert not FIGURE.search(json.dumps(chart.spec)), chart.name
    html = report.html()
    assert "1 of 2 cells is left out: the figures are not known." in html
    markdown = report.markdown()
    assert "not known" in markdown
    assert not FIGURE.search(markdown), markdown
    assert not FIGURE.search(text_of(html.split("<h2", 1)[0]))


def test_pages_of_the_site_have_no_figure(store: Store, number: int) -> None:
    later = add(store)
    site = Client(Site(store.database.name, lambda _line: None))
    pages = ("/", "/runs", f"/campaigns/{number}", f"/compare?side={number}&side={later}", "/trends/unbalanced?on=sim")
    for page in pages:
        answer = site.get(page)
        assert answer.status_code == 200, page
        assert "not known" in answer.text, page
        assert not FIGURE.search(answer.text), page
    assert "2 points left out: not known." in site.get("/trends/unbalanced?on=sim").text


def test_jobs_and_clones_have_no_figure() -> None:
    outcome = Outcome.from_document(predict({"stack": "far"})[0])
    outcome.groups[0].clones = (77_777.0, 77_778.0)
    table = run_tables.jobs_table("run", [(1, outcome)])
    assert "not known" in table.rows[0]
    assert not FIGURE.search(str(table.rows))


RAMP = LoadRamp([LoadStep(77_777.0, {"read": {"p50": 77_700.0, "p99": 77_800.0}}, 77_780.0)], 10**6, 77_777.0)


def test_a_load_ramp_has_no_figure(store: Store) -> None:
    table = ramp_table("load", RAMP, is_known=False)
    assert not FIGURE.search(f"{table.rows} {table.note}")
    assert "is not known" in table.note
    assert FIGURE.search(str(ramp_table("load", RAMP, is_known=True).rows))

    def predict_ramp(labels: made.Labels) -> tuple[dict[str, Any], list[SeriesPoint]]:
        outcome, points = predict(labels)
        step = {"iops": 77_777.0, "latency_ns": {"read": {"p99": 1e6}}}
        return {**outcome, "load_ramp": {"steps": [step], "p99_limit_ns": 10**7, "best_iops": 77_777.0}}, points

    labels = [{"stack": stack, "workload": "randread"} for stack in IOPS]
    ramp_number = made.add(store, labels, predict_ramp, runner="sim", raw="")
    view = ExperimentView([query.select_runs(store, str(ramp_number))], lambda run: query.points(store, run))
    section = load_section(view)
    (chart,) = section.charts
    assert len(chart.table.rows) == 1
    assert "1 line left out: the figures are not known." in section.intro
