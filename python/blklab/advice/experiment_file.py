"""The experiment that proves an answer: its arrangements and loads, for `blklab run`."""

from collections.abc import Mapping

from blklab.advice.answer import Answer
from blklab.advice.question import Table
from blklab.text import toml_tables
from blklab.trace.fio.plan import SEQUENTIAL, FioPlan, JobPlan

MOST = 4  # Arrangements in the experiment


def as_toml(answer: Answer, plans: Mapping[str, FioPlan]) -> str:
    """Returns the experiment; `plans` stand for the traces, by the load's name: the lab and hosts run fio."""
    disks: dict[str, Table] = {}
    stacks: dict[str, Table] = {}
    for number, row in enumerate(answer.rows[:MOST], 1):
        of = row.arrangement
        # Stacks get a number, and disks of which a part is used another name: arrangements use them differently.
        names = {name: f"{name}-part" for name in of.sizes} | {name: f"a{number}-{name}" for name in of.stacks}
        disks |= {names.get(name, name): table for name, table in of.devices(answer.question).items()}
        stacks |= {
            names[name]: {key: _renamed(value, names) for key, value in table.items()}
            for name, table in of.warm().items()
        }
    settings = {"runtime": "30s", **answer.question.settings, **answer.rows[0].arrangement.settings}
    sections: list[tuple[str, Table]] = [("[settings]", settings)]
    sections += [(f"[devices.{name}]", table) for name, table in disks.items()]
    sections += [(f"[stacks.{name}]", table) for name, table in stacks.items()]
    for load in answer.question.loads:
        plan = plans.get(load.name)
        growth = answer.question.growth
        jobs: Mapping[str, Table] = {job.name: _job(plan, job, growth) for job in plan.jobs} if plan else {}
        sections += [(f"[workloads.{load.name}.jobs.{name}]", table) for name, table in jobs.items()]
        sections += [] if plan else [(f"[workloads.{load.name}]", load.table)]
    lines = ["# Predicts, or with --on lab or --on host measures, what `blklab advise` found.", 'title = "Advice"']
    lines += [f"seed = {answer.question.seed}"]
    return "\n".join(lines) + "\n" + toml_tables(sections)


def _job(plan: FioPlan, job: JobPlan, growth: float) -> Table:
    """Returns a job with the directions, sizes, rate and I/Os in flight of a trace; bursts and zones are left out.

    The rate is `growth` times that of the trace.
    """
    reads = sum(part.ios for part in job.directions if part.direction == "read")
    splits = [
        ":".join(f"{share.bytes}/{share.percent}" for share in part.sizes)
        for part in job.directions
        if part.direction != "trim"
    ]
    sequential = all(part.sequential >= SEQUENTIAL for part in job.directions)
    mixed = "rw" if 0 < reads < job.ios else "read" if reads else "write"
    return {
        "rw": mixed if sequential else f"rand{mixed}",
        **({"rwmixread": round(100 * reads / job.ios)} if mixed == "rw" else {}),
        "bssplit": ",".join(splits),
        "blockalign": min(part.align for part in job.directions),
        "iodepth": job.iodepth,
        "numjobs": job.numjobs,
        "size": plan.locality.size,
        # fio limits each direction of each process; the mix keeps the smaller one below its limit.
        "rate_iops": max(1, round(growth * max(part.rate for part in job.directions) / job.numjobs)),
        **({"random_distribution": plan.locality.option} if plan.locality.kind == "zipf" else {}),
    }


def _renamed(value: object, names: Mapping[str, str]) -> object:
    if isinstance(value, list):
        return [_renamed(part, names) for part in value]
    return names.get(value, value) if isinstance(value, str) else value
