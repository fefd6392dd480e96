import os

from blklab.runners.lab.machine.boot import ERROR_LINES, LONGEST_LINE, MOST_KEPT, GuestConsole, complaints_since

PANIC = """\
[   10.533104] sysrq: Trigger a crash\r
[   10.533304] Kernel panic - not syncing: sysrq triggered crash\r
[   10.534058] CPU: 1 PID: 90 Comm: blklab-agent Not tainted 6.1.0-56-cloud-amd64 #1\r
[   10.534058] Hardware name: QEMU Standard PC (i440FX + PIIX, 1996)\r
[   10.534058] Call Trace:\r
[   10.534058]  <TASK>\r
[   10.534058]  dump_stack_lvl+0x44/0x5c\r
[   10.534058]  ? do_syscall_64+0x69/0x90\r
[   10.534058] RIP: 0033:0x7f4e80b9455f\r
[   10.534058] Code: 89 54 24 18 48 89 74 24 10\r
[   10.534058] RAX: ffffffffffffffda RBX: 00007f4e6bffe8a0 RCX: 00007f4e80b9455f\r
[   10.534058]  </TASK>\r
[   10.534058] Kernel Offset: 0x2000000 from 0xffffffff81000000\r
[   10.534058] ---[ end Kernel panic - not syncing: sysrq triggered crash ]---\r
"""


def console(text: bytes) -> GuestConsole:
    reading, writing = os.pipe()
    result = GuestConsole(reading)
    while text:
        text = text[os.write(writing, text) :]
    os.close(writing)
    result.join()
    os.close(reading)
    return result


def test_a_panic_without_its_dump() -> None:
    result = console(PANIC.encode())
    assert result.reason() == "Kernel panic - not syncing: sysrq triggered crash"
    assert result.lines() == ["sysrq: Trigger a crash", "Kernel panic - not syncing: sysrq triggered crash"]


def test_a_panic_says_more_than_what_led_to_it() -> None:
    result = console(b"Out of memory: Killed process 1\nblklab-agent: x\nKernel panic: y\n")
    assert result.reason() == "Kernel panic: y"
    assert console(b"Out of memory: a\nblklab-agent: x\n").reason() == "blklab-agent: x"
    assert console(b"all is well\n").reason() is None


def test_the_last_lines_are_few_short_and_harmless() -> None:
    text = b"".join(b"line %d \x1b[2J\xff\n" % number for number in range(100)) + b"x" * 1000
    lines = console(text).lines()
    assert len(lines) == ERROR_LINES
    assert lines[-1] == "x" * LONGEST_LINE
    assert lines[-2].startswith("line 99 \\x1b[2J")
    assert all(line.isprintable() for line in lines)


def test_no_more_than_the_end_is_kept() -> None:
    result = console(b"blklab-agent: long ago\n" + b"y\n" * MOST_KEPT)
    assert result.reason() is None


def test_complaints_of_the_kernels_log() -> None:
    log = (
        "[    1.000000] md: old failure\n[    5.000001] md/raid1:md0: active with 2 mirrors\n"
        "[    5.500000] md: cannot \x07start\nnot a line\n[    6.000000] BUG: failure at x\n"
    )
    assert complaints_since(log, 5.0) == ["md: cannot \\x07start", "BUG: failure at x"]
    assert complaints_since(log, 7.0) == []
