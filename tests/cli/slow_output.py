# SPDX-License-Identifier: Apache-2.0
"""Runs a command whose output nobody reads while other processes still run: slow_output.py STREAM FILE COMMAND …

STREAM (1 or 2) of the command is a pipe that is full from the start. It is emptied and passed on after five seconds if the
process whose id FILE holds still runs then, and is taken to wait for the command; else only once the command has ended.
"""

import os
import select
import sys


def fill(pipe):
    """Until nothing more goes in. @return how much went in."""
    os.set_blocking(pipe, False)
    size = 0
    for chunk in (b" " * 4096, b" "):
        try:
            while True:
                size += os.write(pipe, chunk)
        except BlockingIOError:
            pass
    os.set_blocking(pipe, True)
    return size


def has_ended(process, seconds):
    """Within that time."""
    death = select.poll()
    try:
        death.register(os.pidfd_open(process), select.POLLIN)
    except ProcessLookupError:
        return True
    return bool(death.poll(1000 * seconds))


def pass_on(pipe, skip, stream):
    while data := os.read(pipe, 1 << 16):
        os.write(stream, data[skip:])
        skip = max(0, skip - len(data))


def main():
    stream = int(sys.argv[1])
    out, into = os.pipe()
    size = fill(into)
    command = os.getpid()
    if os.fork() == 0:
        os.setsid()  # A launcher that kills the command does not kill who reads from it.
        os.close(into)
        with open(sys.argv[2], encoding="ascii") as file:  # A FIFO: opened once the other process is there.
            other = int(file.read())
        if has_ended(other, seconds=5):
            has_ended(command, seconds=10)  # By the launcher, which ends all when one has ended.
        pass_on(out, size, stream)
        os._exit(0)
    os.close(out)
    os.dup2(into, stream)
    os.execvp(sys.argv[3], sys.argv[3:])


main()
