"""What only some systems have is not needed to start, and done without where it is missing."""

import os
import signal
import subprocess
import sys

from unihssl.data import machine
from unihssl.experiments.launchers import local

POSIX_ONLY = ("fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "tty")
START = f"""
import os, shutil, sys  # the standard library's own imports come first
sys.modules.update(dict.fromkeys({POSIX_ONLY}))
import unihssl.cli, unihssl.run_folder, unihssl.interrupt
sys.argv = ["unihssl", "--help"]
unihssl.cli.main()
"""


def test_the_command_line_starts_without_modules_of_posix():
    done = subprocess.run([sys.executable, "-c", START], capture_output=True, text=True)
    assert done.returncode == 0 and "train" in done.stdout, done.stderr


def test_memory_is_guessed_where_the_system_does_not_tell(monkeypatch):
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.delattr(os, "sched_getaffinity")
    assert 0 < machine.free_memory() <= machine.UNKNOWN_MEMORY
    assert machine.cpus() >= 1


class Pool:
    def submit(self, *task: object) -> tuple[object, ...]:
        return task


def test_tasks_are_submitted_where_signals_cannot_be_masked(monkeypatch):
    monkeypatch.delattr(signal, "pthread_sigmask")
    monkeypatch.setattr(local, "HAS_MASK", False)
    assert local._submit(Pool(), print, "task", 2) == (local._interruptible, print, "task", 2)
