"""The section on the hosts of fleets, and on those that differ from the others."""

from blklab.report.experiment.view import ExperimentView
from blklab.report.fleet_results import hosts_table, outlier_lines
from blklab.report.formatting import Sentence
from blklab.report.shell import Item, PageSection, SentenceList
from blklab.text import printable


def section(view: ExperimentView) -> PageSection:
    """Returns the section; it is empty without a fleet."""
    tables: list[Item] = []
    sentences = []
    for cell in view.cells:
        outcomes = [run.outcome for run in cell.runs if run.outcome is not None and "hosts" in run.outcome]
        if outcomes:
            name = view.name(cell, series=True)
            tables.append(hosts_table(name, outcomes))
            sentences += [Sentence(printable(name), line) for line in outlier_lines(outcomes)]
    lists = [SentenceList(sentences)] if sentences else []
    return PageSection("hosts", "Hosts", "Hosts of the fleet", [*lists, *tables])
