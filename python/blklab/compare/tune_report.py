"""The result of a sweep: a table, sentences and commands."""

from collections.abc import Sequence

from blklab.compare import tune
from blklab.compare.figure_text import change, figure, interval, more_repeats
from blklab.compare.metrics import METRICS
from blklab.compare.report import difference, verdict
from blklab.compare.tune import PersistedSettings, Tuning
from blklab.grouping import by_key
from blklab.outcome import NOMINAL
from blklab.render import formatting, terminal
from blklab.render.console import Console
from blklab.render.table import TableColumn, TextTable, text_column
from blklab.text.printing import printable


def print_tuning(
    console: Console, tunings: Sequence[Tuning], settings: PersistedSettings, *, one_at_a_time: bool
) -> None:
    """Prints the effects, and how to keep settings that improve the metric."""
    for tuning in tunings:
        terminal.draw_table(console, tuning_table(tuning))
        console.print(conclusion(tuning))
        if tuning.note:
            console.print(f"note: {tuning.note}")
    lines = persist_lines(settings)
    if lines:
        console.print()
        for line in lines:
            console.print(line)
        if one_at_a_time and len(set(settings.commands)) > 1:
            console.print('Settings were measured one at a time; mode = "all" measures combinations.', style="dim")


def tuning_table(tuning: Tuning) -> TextTable:
    """Returns one row for each value that was tried."""
    columns = [
        text_column("setting"),
        text_column("value"),
        text_column("against"),
        TableColumn("runs"),
        TableColumn("change"),
    ]
    is_prediction = any(effect.difference.of_model for effect in tuning.effects)
    confidence = NOMINAL if is_prediction else tuning.confidence
    level = f"{100 * confidence:g} % interval"
    columns += [TableColumn(level), TableColumn("p"), text_column("")]
    rows = [
        [
            *map(printable, (effect.setting, effect.value, effect.baseline)),
            str(effect.runs),
            *difference(effect.difference),
            f"cannot act: {effect.no_effect}" if effect.no_effect else verdict(effect.difference),
        ]
        for effect in tuning.effects
    ]
    labels = " ".join(f"{key}={value}" for key, value in tuning.labels.items())
    base = ""
    if tuning.baseline is not None:
        figure_text = figure(tuning.metric, tuning.baseline) if tuning.known else formatting.UNKNOWN
        base = f", baseline {figure_text}"
    title = f"{METRICS[tuning.metric].description}{base}"
    if is_prediction:
        title = f"SIMULATED: {title}"
    # The setting and the verdict are hidden last.
    spare = ("p", level, "runs", "against", "change")
    return TextTable(f"{printable(labels)}: {title}" if labels else title, columns, rows, spare=spare)


def conclusion(tuning: Tuning) -> str:
    best = tuning.best
    verdict_lists = by_key((effect.setting, effect.verdict) for effect in tuning.effects if effect.setting not in best)
    verdicts_by_setting = {setting: set(verdicts) for setting, verdicts in verdict_lists.items()}
    worse = [setting for setting, verdicts in verdicts_by_setting.items() if "worse" in verdicts]
    single_runs = [
        setting for setting in verdicts_by_setting if setting not in worse and "differ" in verdicts_by_setting[setting]
    ]
    quiet = [setting for setting in verdicts_by_setting if verdicts_by_setting[setting] == {"same"}]
    inert = [setting for setting in verdicts_by_setting if verdicts_by_setting[setting] == {"no effect"}]
    not_known = {effect.setting for effect in tuning.effects if not effect.difference.known} - {*best, *worse}
    named = {*worse, *single_runs, *quiet, *inert, *not_known}
    unknown = [setting for setting in verdicts_by_setting if setting not in named]
    unclear = [
        effect.difference.repeats
        for effect in tuning.effects
        if effect.setting in unknown and effect.difference.repeats
    ]
    repeats_text = more_repeats(max(unclear)) if unclear else "use repeats = 2 or more"
    parts = [
        f"{printable(setting)} = {printable(effect.value)} improves it"
        f" ({change(effect.difference.change)}, {interval(effect.difference)})"
        for setting, effect in best.items()
    ]
    for settings, advice in (
        (worse, "leave unchanged, other values are worse"),
        (single_runs, "runs differ, but each was run once: repeats = 2 or more"),
        (not_known, "not known, the predictions are too uncertain: measure"),
        (unknown, f"cannot tell ({repeats_text})"),
        (quiet, "the same"),
        (inert, "cannot act on this workload"),
    ):
        if settings:
            parts.append(f"{printable(', '.join(sorted(settings)))}: {advice}")
    return "; ".join(parts) + "." if parts else "The sweep has only the baseline."


def persist_lines(settings: PersistedSettings) -> list[str]:
    """Returns the commands that persist settings; none if there is nothing to keep."""
    lines = []
    if settings.commands:
        lines += ["Now, as root:", *(f"    {line}" for line in settings.commands)]
    if settings.udev:
        lines += [f"After a reboot, {tune.UDEV}:", *(f"    {line}" for line in settings.udev)]
    if settings.sysctl:
        lines += [f"And {tune.SYSCTL}:", *(f"    {line}" for line in settings.sysctl)]
    return [printable(line) for line in lines] or [
        formatting.NONE + " nothing to keep: no setting of this host improves the metric"
    ]
