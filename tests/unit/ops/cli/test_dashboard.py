"""The dashboard for Grafana, against the metrics that workers serve."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from headgate import App
from headgate.ops.dashboards import grafana_dashboard
from tests.support.command_line import CommandLine
from tests.support.served_metrics import served_metrics

OF_PROMETHEUS = {"job", "instance", "le"}
"""Labels that Prometheus adds itself."""

_CONSTANT = re.compile(r'"[^"]*"')
_METRIC = re.compile(r"(headgate_\w+)(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"\bby \(([^)]*)\)")


def served() -> Mapping[str, set[str]]:
    """Return the labels of each series that a worker serves, by its name."""
    return {
        each.name + suffix: set(each.labels)
        for each in served_metrics(App("shop"))
        for suffix in (("_bucket", "_sum", "_count") if each.kind == "histogram" else ("",))
    }


@pytest.fixture(scope="module")
def dashboard() -> Any:
    return json.loads(grafana_dashboard())


def targets(dashboard: Any) -> Iterator[tuple[str, str]]:
    """Yield each expression with its legend."""
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]


def names(text: str) -> set[str]:
    return {name.strip() for name in text.split(",") if name.strip()}


def test_no_panel_is_without_a_query(dashboard: Any) -> None:
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert panels
    assert [panel["title"] for panel in panels if not panel.get("targets")] == []


def test_it_shows_only_metrics_and_labels_that_workers_serve(dashboard: Any) -> None:
    known = served()
    for expression, legend in targets(dashboard):
        found = _METRIC.findall(expression)
        assert found, expression
        labels = set.union(*(known[name] for name, _ in found)) | OF_PROMETHEUS
        for name, selector in found:
            selected = {each.strip("=~! ") for each in _CONSTANT.sub("", selector).split(",")}
            assert selected <= known[name] | OF_PROMETHEUS, expression
        grouped = [names(each) for each in _GROUPED.findall(expression)]
        assert set().union(*grouped) <= labels, expression
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= set().union(*grouped), legend


def test_every_metric_of_a_worker_is_shown(dashboard: Any) -> None:
    shown = {name for each, _ in targets(dashboard) for name, _ in _METRIC.findall(each)}
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in served()}
    assert families <= {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}


def test_the_variables_name_a_metric_that_every_worker_serves(dashboard: Any) -> None:
    [source, job] = dashboard["templating"]["list"]
    assert source["query"] == "prometheus"
    assert set(_METRIC.findall(job["definition"])) == {("headgate_worker_info", "")}
    for expression, _ in targets(dashboard):
        for _, selector in _METRIC.findall(expression):
            assert selector.startswith('job=~"$job"'), expression


def test_panels_have_ids_of_their_own_and_do_not_overlap(dashboard: Any) -> None:
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells


def test_the_command_prints_it_as_it_is_shipped(headgate: CommandLine) -> None:
    assert headgate("dashboard", "grafana").out == grafana_dashboard()
