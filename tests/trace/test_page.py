"""The page as text: hostile names inert, nothing fetched, every script accounted for."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from blklab.documents import profile
from blklab.render import shell
from blklab.trace import page
from blklab.trace.view import ProfileView
from tests.trace.conftest import read_trace


class Parsed(HTMLParser):
    """The elements of a page, and what its scripts hold."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._in_script = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self._in_script = True
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = self._in_script and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._in_script:
            self.scripts[-1] += data


def test_scripts_are_those_of_the_policy(pgbench: ProfileView) -> None:
    result = Parsed(page.render(pgbench))
    policy = next(a["content"] for t, a in result.elements if a.get("http-equiv")) or ""
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    data, *scripts = result.scripts
    assert json.loads(data).keys() == {"config", "specs"}
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert policy.count("sha256-") == len(scripts) == 2


def test_nothing_is_fetched(pgbench: ProfileView) -> None:
    for tag, attributes in Parsed(page.render(pgbench)).elements:
        assert tag not in {"link", "img", "iframe", "base", "object"}
        assert not attributes.keys() & {"src", "srcset", "action"}
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "#").startswith("#")


def test_it_says_what_it_should(pgbench: ProfileView) -> None:
    html = page.render(pgbench, title="db7 & <friends>", command="blklab trace report 'a b'")
    assert "<title>db7 &amp; &lt;friends&gt;</title>" in html
    assert "blklab trace report &#39;a b&#39;" in html
    text = re.sub(r"<[^>]+>", "", html).replace("\u00a0", " ")
    assert "md127 received 18,476 I/Os and 93.9 MiB in 1m 23s" in text
    assert "2,910, 25,672 KiB" in text
    assert "20 Nov 2026, 21:05:08 UTC" in text
    assert len(html) < 2_000_000


def test_it_is_the_same_every_time(pgbench: ProfileView) -> None:
    assert page.render(pgbench) == page.render(pgbench)


@given(st.text())
def test_json_is_inert_and_itself(text: str) -> None:
    made = str(shell.inert_json({text: [text]}))
    assert not set("<>&\u2028\u2029") & set(made)
    assert json.loads(made) == {text: [text]}


@given(st.text())
@example("`0`")
@example("<`<b>`>")
def test_sentences_are_escaped(text: str) -> None:
    made = str(shell.emphasise_figures(text))
    left = re.sub(r"</?(b|code)>", "", made)
    assert not set("<>\"'") & set(left)


def test_figures_are_set_off() -> None:
    assert str(shell.emphasise_figures("md127 took 3.4 ms (<0.1 %), 2 of 7 on vdb", ["vdb"])) == (
        "md127 took <b>3.4\u00a0ms</b> (<b>&lt;0.1\u00a0%</b>), 2 of 7 on <b>vdb</b>"
    )


def test_hostile_names_are_text(pgbench: ProfileView) -> None:
    name = '</script><img src=x onerror=alert(1)>"\u2028'
    device = pgbench.profile.devices[1]
    process = replace(device.load.processes[0], name=name)
    device = replace(device, name=name, load=replace(device.load, processes=[process]))
    named = {"inputs": [profile.Input(name=name, files=[name])], "warnings": [profile.Warning(path=name, message=name)]}
    trace = replace(pgbench.trace, **named)
    view = ProfileView(replace(pgbench.profile, trace=trace, devices=[device], focus="9,127"))
    result = Parsed(page.render(view, title=name, command=name))
    assert "img" not in {tag for tag, _ in result.elements}
    assert len(result.scripts) == 3


def test_the_title_is_the_answer_and_its_evidence_is_a_link() -> None:
    view = read_trace(Path("accuracy/causes/recordings/first/unequal-mixed"))
    text = page.render(view)
    result = Parsed(text)
    assert re.search(r"<h1>\w+ slows md\d+ down</h1>", text)
    links = [attributes.get("href") for tag, attributes in result.elements if tag == "a"]
    places = {attributes.get("id") for _, attributes in result.elements}
    evidence = [link for link in links if link and link.startswith("#chart-")]
    assert evidence
    assert all(link.removeprefix("#") in places for link in evidence)


def test_the_navigation_has_at_most_seven_links(pgbench: ProfileView) -> None:
    navigation = page.render(pgbench).partition('<nav aria-label="sections">')[2].partition("</nav>")[0]
    assert 4 <= navigation.count("<a ") <= 7


def test_every_chart_has_a_text_alternative(pgbench: ProfileView) -> None:
    result = Parsed(page.render(pgbench))
    labels = [attributes["aria-label"] for _, attributes in result.elements if "data-chart" in attributes]
    assert len(labels) > 10
    assert all(label and label.endswith("The table below has the figures.") for label in labels)
