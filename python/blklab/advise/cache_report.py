"""Advice on a cache: whether it is worth it, in the terminal and as JSON."""

from collections.abc import Sequence
from dataclasses import asdict

from blklab.advise.answer import doubts, join_scripts, script, script_for_volume
from blklab.advise.cache import WARM, WINDOWS, CacheAnswer, CacheFigures, WarmUp, choice_of
from blklab.advise.candidates import CACHE_WORDS
from blklab.advise.figures import YEARS
from blklab.advise.race import SAME
from blklab.advise.report_figures import (
    HOW_TO_RUN,
    compare_choices,
    latency,
    mean_interval,
    rated_years,
    samples_as_dicts,
)
from blklab.advise.samples import Simulations
from blklab.render import formatting, terminal
from blklab.render.console import Console
from blklab.render.formatting import Sentence
from blklab.render.table import TextTable, number_columns, text_column
from blklab.text.printing import printable
from blklab.units import format_duration, format_size


def verdict(answer: CacheAnswer) -> str:
    """Returns the first sentence: whether a cache is worth it."""
    best = answer.best
    disks = formatting.plural(answer.question.pools[-1].count, "fast disk")
    if not answer.is_known:
        return (
            f"Whether {cache_words(best)} is worth it is not known: nine of ten measurements of the mean latency are "
            f"{mean_interval(best.sample)} with it, and {mean_interval(answer.without.sample)} without. "
            "Measure the disks with `blklab calibrate`."
        )
    if not answer.is_worth_it:
        no_gain = f"{cache_words(best)} {_describe_no_gain(answer)}. {_both_means(answer)}"
        if answer.risky:  # Faster ones leave fewer failures to survive: `sentences` names them
            return f"Not with {disks}: without a risk, {no_gain}"
        return f"No: even {no_gain}"
    certainty = "Yes" if answer.is_certain else "Perhaps"
    if _fits_on_fast_disks(answer):
        lines = [
            f"No cache is needed: all {format_size(answer.question.loads[0].span)} fit on the fast disks. "
            "`blklab advise` plans an array of these. If the data must be on the slow disks: "
            f"{cache_words(best)}. {_both_means(answer)}"
        ]
    else:
        lines = [f"{certainty}: {cache_words(best)}. {_both_means(answer)}"]
    if best.hit_ratio is not None:
        lines.append(f"It serves {formatting.share(best.hit_ratio)} of the reads.")
    if not answer.is_certain:
        lines.append("The intervals overlap: measure it before you buy.")
    if best.sample.p99_ns > (1 + SAME) * answer.without.sample.p99_ns:
        lines.append("But the slowest 1 % take longer.")
    if best.rated_years is not None and best.rated_years < YEARS:
        lines.append(
            "If this load never stops, it has written as much as the disk is rated for after "
            f"{rated_years(best.rated_years)}: take a larger disk, or one for more writes."
        )
    if not best.keeps_up:
        lines.append(f"I/Os fall behind {_pace(answer)} even so: the load is too much for these disks.")
    elif not answer.without.keeps_up:
        lines.append(f"Without a cache, I/Os fall behind {_pace(answer)}.")
    return " ".join(lines)


def _fits_on_fast_disks(answer: CacheAnswer) -> bool:
    """Returns whether all data fit on a mirror of the fast disks: a single one would lose all data when it dies.

    It is not known of a trace, which may have a part of the I/Os.
    """
    load = answer.question.loads[0]
    pool = answer.question.pools[-1]
    return not load.timed and pool.count > 1 and 0 < load.span <= pool.bytes


def _describe_no_gain(answer: CacheAnswer) -> str:
    """Says why the best cache is not worth it."""
    if answer.gain > 1 + SAME:
        return "is slower"
    if answer.gain >= 1 - SAME:
        return f"gains less than {formatting.share(SAME)}"
    if answer.is_cold:
        return "only reads ahead, since this load reads its data once"
    # It has no hits: only its chunks divide the I/Os.
    return "helps only by dividing I/Os"


def _pace(answer: CacheAnswer) -> str:
    """Returns what says when I/Os should end."""
    return "the recorded times" if answer.question.loads[0].timed else "the rate of the load"


def _both_means(answer: CacheAnswer) -> str:
    before = answer.without.sample
    after = answer.best.sample
    return (
        f"The mean latency is {formatting.duration(after.mean_ns)} instead of "
        f"{formatting.duration(before.mean_ns)} (nine of ten measurements: "
        f"{mean_interval(after)} instead of {mean_interval(before)}), "
        f"the 99th percentile {formatting.duration(after.p99_ns)} instead of "
        f"{formatting.duration(before.p99_ns)}."
    )


def _cache_kind(kind_and_mode: str) -> str:
    """Returns the name of a cache; `lvmcache-writeback` is the level of an arrangement with one."""
    kind, _, mode = kind_and_mode.partition("-")
    if mode:
        return f"{CACHE_WORDS[kind]} ({mode})"
    return CACHE_WORDS[kind]


def cache_words(row: CacheFigures) -> str:
    """Returns the cache alone: of "RAID-1 of …, behind a bcache (writeback) on …", the last part."""
    return row.arrangement.words.partition(", behind a ")[2]


def sentences(answer: CacheAnswer) -> list[Sentence]:
    """Returns the answer, its reasons, and what it costs."""
    best = answer.best
    load = printable(answer.question.loads[0].source)
    result = [Sentence("Answer", verdict(answer)), Sentence("Array", f"{answer.without.arrangement.words}; {load}.")]
    assumptions = [load.assumption for load in answer.question.loads if load.assumption]
    result += [Sentence("Assumed", printable(assumption)) for assumption in assumptions]
    background_ios = answer.question.loads[0].background_ios
    if background_ios:
        writes = formatting.plural(background_ios, "write")
        result.append(
            Sentence("Waits", f"Latencies do not include {writes} of the trace for which no program waits (writeback).")
        )
    result.append(Sentence("Size", size_sentence(answer)))
    if answer.risky:
        kinds = []
        for row in answer.risky:
            kinds.append(f"{_cache_kind(row.arrangement.level)}, {latency(row.sample, row.sample.mean_ns)}")
        base_failures = answer.without.arrangement.failures
        risk = (
            f"Faster, but with it the array survives {answer.risky[0].arrangement.failures} failed disks "
            f"instead of {base_failures}: {formatting.listing(kinds)}. "
            f"A mirror of {base_failures + 1} fast disks (--fast {base_failures + 1}x…) keeps {base_failures}."
        )
        result.append(Sentence("Risk", risk))
    if not answer.is_worth_it:
        return result
    if best.dirty_bytes and not answer.without.arrangement.failures:
        result.append(
            Sentence("Risk", "The cache has data that the disk does not have: if one of them fails, all data are lost.")
        )
    if changes := compare_choices(answer.choices[best.arrangement.level]):
        result.append(Sentence("Choices", changes))
    if answer.warm_up and any(answer.warm_up.hit_ratios):
        result.append(Sentence("Warm-up", warm_up_sentence(answer, answer.warm_up)))
    result.append(Sentence("Wear", wear_sentence(best)))
    if best.dirty_bytes:
        result.append(Sentence("Dirty data", f"Up to {format_size(best.dirty_bytes)} are only in the cache."))
    return result


def size_sentence(answer: CacheAnswer) -> str:
    """Says how large the cache must be, and what a longer trace may change."""
    kind_and_mode = answer.best.arrangement.level
    sizes = answer.by_size[kind_and_mode]
    smallest_block = answer.curves["blocks"][0] if answer.curves else None
    steps = [f"{format_size(size)} {format_duration(mean)}" for size, mean in sizes.items()]
    base_mean = format_duration(answer.without.sample.mean_ns)
    lines = []
    if answer.is_known:
        lines.append(
            f"Mean latency of {_cache_kind(kind_and_mode)} with its defaults: "
            f"without {base_mean}; with {'; '.join(steps)}."
        )
    if any(size > answer.best.bytes for size in sizes):
        lines.append(f"Above {format_size(answer.best.bytes)}, it does not become clearly faster.")
    elif smallest_block and answer.best.bytes < smallest_block["footprint_bytes"]:
        lines.append("A larger cache may gain more.")
    if answer.curves and smallest_block and smallest_block["read_first_touch_ratio"] is not None:
        lines.append(
            f"In {formatting.duration(answer.curves['span_ns'])}, "
            f"the trace touches {formatting.size(smallest_block['footprint_bytes'])}; a longer one may need more. "
            f"{formatting.share(smallest_block['read_first_touch_ratio'])} of the reads are the first to their "
            f"{formatting.size(smallest_block['block_bytes'])}: "
            "a cache that begins empty has them only if its chunks are larger."
        )
    return " ".join(lines)


def warm_up_sentence(answer: CacheAnswer, warm: WarmUp) -> str:
    """Says how long the cache takes until it has what the load needs."""
    hits = ", ".join(formatting.share(ratio) for ratio in warm.hit_ratios)
    when = "only there: record for longer to see more"
    if warm.seconds is not None:
        when = f"after {format_duration(warm.seconds * 1e9)} of this load"
    text = (
        f"Hits of the reads in {WINDOWS} equal parts of the trace: {hits}. "
        f"{formatting.share(WARM)} of those of the last part are reached {when}."
    )
    if not answer.is_known:
        return text
    return (
        f"{text} In the first part, "
        f"while most is copied, the 99th percentile is {formatting.duration(warm.first_p99_ns)}, "
        f"without a cache {formatting.duration(warm.first_p99_without_ns)}."
    )


def wear_sentence(row: CacheFigures) -> str:
    """Says how much is written to the cache's disk, and how long it is rated for."""
    line = (
        f"{formatting.size(row.flash_bytes_per_day)} a day are written to the cache's disk, "
        f"if the load goes on like this, {formatting.number(row.flash_bytes_per_day * 365 / 1e12)} TB a year."
    )
    if row.rated_years is None:
        if row.flash_bytes_per_day:
            line += " Its rating is not in the library: compare with the TBW of its data sheet."
        return line
    return f"{line} Its rating suffices for {rated_years(row.rated_years).replace('>', 'more than ')}."


def _tables(answer: CacheAnswer) -> list[TextTable]:
    """Returns the array alone and each kind of cache at the size that it needs: what it gains, and what it costs."""
    gain_columns = [
        text_column("cache"),
        *number_columns("size", "mean", "nine of ten", "second half", "p99", "read hits"),
    ]
    cost_columns = [text_column("cache"), *number_columns("written a day", "rated for", "dirty", "failures")]
    gain_rows = []
    cost_rows = []
    for row in (answer.without, *answer.caches):
        arrangement = row.arrangement
        name = "none"
        if row.bytes:
            choice = choice_of(arrangement)
            name = _cache_kind(arrangement.level)
            if choice:
                name += f", {choice}"
        gain_rows.append(
            [
                name,
                formatting.size(row.bytes or None),
                latency(row.sample, row.sample.mean_ns),
                mean_interval(row.sample),
                latency(row.sample, row.later_ns),
                latency(row.sample, row.sample.p99_ns),
                formatting.share(row.hit_ratio),
            ]
        )
        cost_rows.append(
            [
                name,
                formatting.size(row.flash_bytes_per_day if row.bytes else None),
                rated_years(row.rated_years),
                formatting.size(row.dirty_bytes if row.bytes else None),
                str(arrangement.failures),
            ]
        )
    size = (
        f"size: the smallest after which more gains less than {formatting.share(SAME)}; "
        "second half: mean latency of the later I/Os"
    )
    written = (
        "written a day: to the cache's disk, if the second half of the load runs all day; "
        "dirty: what only the cache has; failures: disks that can fail, whichever they are"
    )
    # The first row is the array alone.
    best_row = frozenset({1 + list(answer.caches).index(answer.best)})
    return [
        TextTable("What each kind gains", gain_columns, gain_rows, size, strong=best_row),
        TextTable("What each kind costs", cost_columns, cost_rows, written, strong=best_row),
    ]


def script_lines(answer: CacheAnswer, simulations: Simulations) -> tuple[str, Sequence[str]]:
    """Returns what the script is for, and its lines."""
    arrangement = answer.best.arrangement
    if arrangement.top_table["kind"] == "bcache":
        node = simulations.cell(arrangement, answer.question.loads[0]).document["stack"]
        about = "bcache cannot be put on a volume with data. To build all of it on Debian, as root"
        return about, join_scripts([script(arrangement, node, {}, "ext4")])
    about = "To put the cache on a volume of LVM, which keeps its data, as root"
    return about, script_for_volume(arrangement)


def check_commands(answer: CacheAnswer) -> list[str]:
    """Returns commands that check the cache later; none for dm-writecache, whose counters say less."""
    devices = {"bcache": "/dev/bcache0", "lvmcache": "/dev/GROUP/VOLUME"}
    device = devices.get(str(answer.best.arrangement.top_table["kind"]))
    if device is None:
        return []
    return [
        "blklab cache status --json > before.json",
        f"blklab trace record {device} -w 10m -o /dev/shm/cached",
        "blklab cache status --json > after.json",
        "blklab cache check /dev/shm/cached --before before.json --after after.json",
    ]


def print_answer(console: Console, answer: CacheAnswer, about: str, lines: Sequence[str]) -> None:
    """Prints the answer, the kinds next to each other, and what to type."""
    terminal.prose(console, sentences(answer))
    terminal.draw_table(console, *_tables(answer))
    console.print()
    terminal.prose(console, [Sentence("" if index else "Note", line) for index, line in enumerate(_notes(answer))])
    scripts = {f"{about}: {HOW_TO_RUN}": lines}
    if check := check_commands(answer):
        scripts["Later, to see whether the cache does what it should:"] = check
    for title, shown in scripts.items() if answer.is_worth_it else ():
        console.print()
        console.print(title)
        console.print()
        for line in shown:
            console.print(f"    {line}")


def _notes(answer: CacheAnswer) -> list[str]:
    """Returns what the figures depend on."""
    notes = []
    recorded_ios = answer.question.loads[0].ios or 0
    if answer.ios < recorded_ios:
        notes.append(f"Only the first {answer.ios:,} of {recorded_ios:,} I/Os were simulated.")
    return notes + doubts(answer.question, [row.arrangement for row in answer.caches])


def as_dict(answer: CacheAnswer) -> dict[str, object]:
    """Returns the JSON document: docs/reference/formats.md, "cache advice"."""
    return {
        "answer": verdict(answer),
        "worth_it": answer.is_worth_it,
        "certain": answer.is_certain,
        "known": answer.is_known,
        "without": _row(answer.without),
        "caches": [_row(row) for row in answer.caches],
        "best": list(answer.caches).index(answer.best),
        "mean_ns_by_size": answer.by_size,
        "choices": answer.choices,
        "warm_up": asdict(answer.warm_up) if answer.warm_up else None,
        "read_first_touch_ratio": answer.curves["blocks"][0]["read_first_touch_ratio"] if answer.curves else None,
        "notes": _notes(answer),
        "ios": answer.ios,
        "load": [printable(load.source) for load in answer.question.loads],
    }


def _row(row: CacheFigures) -> dict[str, object]:
    arrangement = row.arrangement
    document: dict[str, object] = {
        "name": arrangement.name,
        "words": arrangement.words,
        "stacks": arrangement.stacks,
        "failures": arrangement.failures,
    }
    document |= vars(row)  # the other figures, by the names of their fields
    del document["candidate"]
    document["today"] = samples_as_dicts(row.candidate.samples)
    return document
