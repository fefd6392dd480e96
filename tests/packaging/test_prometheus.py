"""Rules, dashboard and metrics fit one another, and Prometheus's own tool takes them.

`promtool` is in Debian's `prometheus`; scripts/setup unpacks it with the other test programs.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from blklab.diagnostic import SEVERITIES
from blklab.md import audit
from blklab.md.exporter.activity import ActivitySinceBoot
from blklab.md.exporter.metrics import ACTIONS, MEMBER_STATES, METRICS, PREFIX, STATES
from tests.md.conftest import Arrays, machine
from tests.md.exporter.conftest import Exported, mirrored

__all__ = ["machine", "mirrored"]

PACKAGING = Path(__file__).parents[2] / "packaging"
RULES = PACKAGING / "prometheus" / "blklab-md.rules.yml"
DASHBOARD = PACKAGING / "grafana" / "blklab-md.json"

PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def promtool(*arguments: object, stdin: bytes = b"") -> str:
    program = shutil.which("promtool", path=PATH)
    if program is None:
        pytest.skip("promtool is not installed: scripts/setup test")
    done = subprocess.run([program, *map(str, arguments)], input=stdin, capture_output=True, check=False)
    output = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, output
    return output


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    result: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return result


def expressions() -> Iterator[str]:
    """What the dashboard's panels and variables ask."""
    for panel in dashboard()["panels"]:
        yield from (target["expr"] for target in panel["targets"])
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((.+), \w+\)", variable["definition"])
            assert match
            yield match[1]


def used(expression: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The metrics that an expression names, with what it wants of their labels."""
    recorded = "|".join(rule["record"] for rule in rules() if "record" in rule)
    plain = re.sub(recorded, "", expression)
    for name, wanted in re.findall(r"\b(blklab_\w+)(?:\{([^}]*)\})?", plain):
        yield name, dict(re.findall(r'(\w+)(?:=~|!~|!=|=)"([^"]*)"', wanted))


ASKED = [*(rule["expr"] for rule in rules()), *expressions()]


@pytest.mark.parametrize("expression", ASKED)
def test_all_metrics_of_expressions_are_exported(expression: str) -> None:
    assert "blklab_md_" in expression
    values: dict[str, set[str]] = {"state": {*STATES, *MEMBER_STATES}, "action": {*ACTIONS},
              "severity": {*SEVERITIES}}  # fmt: skip
    for name, wanted in used(expression):
        declared = METRICS[name.removeprefix(PREFIX)]
        assert set(wanted) <= {*declared.labels, "job", "instance"}
        for label, words in wanted.items():
            if label in values:
                assert set(words.split("|")) <= values[label]
    by = re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
    labels = {label for declared in METRICS.values() for label in declared.labels}
    assert set(re.split(r", ", ", ".join(by))) <= {*labels, "job", "instance", ""}


def test_findings_that_rules_name_are_rules_of_the_audit() -> None:
    sources = "".join(path.read_text() for path in Path(audit.__file__).parent.glob("*.py"))
    named = {
        word
        for expression in ASKED
        for name, wanted in used(expression)
        if name == "blklab_md_findings"
        for word in wanted.get("rule", "").split("|")
        if word
    }
    assert "bbl-entries" in named
    assert {word for word in named if f'"{word}"' not in sources} == set()


def test_the_manual_names_no_other_metrics() -> None:
    manual = (PACKAGING.with_name("docs") / "howto" / "watch.md").read_text()
    named = {name for line in manual.splitlines() for name, _ in used(line)}
    assert "blklab_md_unseen" in named
    assert {name.removeprefix(PREFIX) for name in named} - {"", "blklab_md"} <= METRICS.keys()


def test_every_alert_says_what_to_do() -> None:
    alerts = [rule for rule in rules() if "alert" in rule]
    assert alerts
    assert len({rule["alert"] for rule in alerts}) == len(alerts)
    for rule in alerts:
        assert {"summary", "description", "run"} == set(rule["annotations"])
        assert rule["annotations"]["run"].startswith("blklab md audit")
        assert rule["labels"]["severity"] in {"critical", "warning"}


def test_prometheus_takes_the_rules_and_they_do_what_they_say() -> None:
    assert "SUCCESS" in promtool("check", "rules", RULES)
    assert "SUCCESS" in promtool("test", "rules", RULES.with_name("blklab-md.test.yml"))


def test_every_alert_is_tested() -> None:
    tested = RULES.with_name("blklab-md.test.yml").read_text()
    assert {rule["alert"] for rule in rules() if "alert" in rule} <= set(re.findall(r"\bMd\w+", tested))


@pytest.mark.parametrize("since_boot", [False, True])
def test_prometheus_likes_the_metrics(mirrored: Arrays, since_boot: bool) -> None:
    member = mirrored.roots.sys / "block/md0/md"
    mirrored.write(member, {"sync_action": "check", "sync_completed": "1 / 2", "sync_speed": "1"})
    exported = Exported(mirrored, activity=(lambda made, _: ActivitySinceBoot(made.roots)) if since_boot else None)
    assert promtool("check", "metrics", stdin=generate_latest(exported.registry)) == ""


def test_the_dashboard_can_be_imported() -> None:
    result = dashboard()
    assert result["schemaVersion"] >= 39
    assert result["id"] is None
    ids = [panel["id"] for panel in result["panels"]]
    assert len(set(ids)) == len(ids)
    variables = {variable["name"] for variable in result["templating"]["list"]}
    sources = [result["panels"], result["templating"]]
    words = set(re.findall(r"\$\{?(\w+)", json.dumps(sources)))
    assert words - {"__rate_interval", "__all"} <= variables
    for panel in result["panels"]:
        assert panel["title"]
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs)
        for source in [panel, *panel["targets"]]:
            assert source["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_panels_do_not_lie_upon_one_another() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard()["panels"]:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken
        taken |= cells


def test_prometheus_understands_what_the_dashboard_asks(tmp_path: Path) -> None:
    asked = []
    for at, expression in enumerate(expressions()):
        plain = expression.replace("$__rate_interval", "5m")
        plain = re.sub(r"\$(job|instance|array)\b", ".*", plain)
        asked.append({"record": f"asked:{at}", "expr": plain})
    path = tmp_path / "asked.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "asked", "rules": asked}]}))
    assert "SUCCESS" in promtool("check", "rules", path)
