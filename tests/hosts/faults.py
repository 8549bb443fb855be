# SPDX-License-Identifier: Apache-2.0
"""A cut link, a dead or a stopped rank ends the job: every process, in time, with a word why. What the
processes end with is written down with their launchers."""

import contextlib
import os
import pathlib
import signal
import time

from on_two_nodes import SIZES, OnTwoNodes

MANY_FORWARDS = 1000000  # The run would not end by itself.

# Each moment takes seconds; all of them are played by `make soak`.
PLAYS_ALL = "TRIMTAB_SOAK" in os.environ


def some(moments, few):
    return moments if PLAYS_ALL else few


def used_seconds(pid):
    """Of a core."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class OnFaultyNodes(OnTwoNodes):
    def start_run(self):
        self.deadline_s = self.launcher.deadline_s
        return self.launch("run", "--nodes", 2, *SIZES, "--forwards", MANY_FORWARDS, "--rebalance-every", 2,
                           "--deadline-ms", 1000 * self.deadline_s)

    def await_work(self, rank, seconds):
        while used_seconds(self.pids[rank]) < seconds:
            time.sleep(0.01)

    @contextlib.contextmanager
    def cut_link(self):
        self.nodes.cut()
        try:
            yield
        finally:
            self.nodes.mend()

    def latest(self):
        """For an end, from now on: some wait for one that waits."""
        return time.monotonic() + 2 * self.deadline_s + self.launcher.slack_s

    def check_end(self, job, lost, until, begun=True):
        """`begun`: the lost ranks had done some work."""
        self.await_end(until)
        self.launcher.check_loss(self, *job.finish(1), lost, begun)


class Faults(OnFaultyNodes):
    def test_a_cut_link_ends_the_run(self):
        for after_s in some((0.0, 0.1, 0.5, 1.5), few=(0.0, 0.5)):
            with self.subTest(after_s=after_s):
                job = self.start_run()
                self.await_work(0, after_s)
                with self.cut_link():
                    self.check_end(job, (2, 3), self.latest())

    def test_a_killed_rank_ends_the_run(self):
        for rank, after_s in some(((3, 0.0), (0, 0.0), (2, 0.1), (0, 0.1), (1, 0.5), (0, 1.0), (3, 2.0)),
                                  few=((3, 0.0), (0, 0.5))):
            with self.subTest(rank=rank, after_s=after_s):
                job = self.start_run()
                self.await_work(rank, after_s)
                os.kill(self.pids[rank], signal.SIGKILL)
                self.check_end(job, (rank,), self.latest(), begun=after_s > 0)

    def test_a_stopped_rank_ends_the_run(self):
        """The others do not wait for it, and it ends itself once it goes on, if it was not ended before."""
        for rank, after_s in some(((3, 0.0), (0, 0.1), (1, 0.5), (0, 1.0), (3, 2.0)), few=((0, 0.1), (1, 0.5))):
            with self.subTest(rank=rank, after_s=after_s):
                job = self.start_run()
                self.await_work(rank, after_s)
                os.kill(self.pids[rank], signal.SIGSTOP)
                self.await_end(self.latest(), besides=[self.pids[rank]])
                if self.pids[rank] in self.nodes.processes():
                    os.kill(self.pids[rank], signal.SIGCONT)
                self.check_end(job, (rank,), self.latest())
