# SPDX-License-Identifier: Apache-2.0
"""Jobs of MPI processes of which one is killed or stopped end by themselves, soon, and say whom they waited for."""

import os
import pathlib
import select
import signal
import subprocess
import time
import unittest

from program import BINARY, ProgramTest

MPIEXEC = os.environ.get("TRIMTAB_MPIEXEC", "").split()  # Empty where it was built without MPI.
RANKS = 3
VICTIM = 1
DEADLINE_S = 1.5
SLACK_S = 20  # For a machine that is busy otherwise, and for a launcher that ends one process after the other.
RUN = ("run", "--transport", "mpi", "--forwards", 1000000, "--tokens", 64, "--hidden", 64, "--intermediate", 32,
       "--deadline-ms", int(1000 * DEADLINE_S))
VERIFY = ("verify", "--transport", "mpi", "--campaign", 1000000, "--deadline-ms", 10)
VERIFY_PATIENCE_S = 10.5  # And as long again, but not more than 10 s, to leave.


def used_seconds(pid):
    """Of a core."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Job:
    """Processes that are ended by their ids whatever happens."""

    def __init__(self, test, launcher, arguments):
        fifo = test.folder / "ids"
        os.mkfifo(fifo)
        script = f'echo $OMPI_COMM_WORLD_RANK $$ > {fifo}; exec "$@"'
        self.launcher = subprocess.Popen([*MPIEXEC, *launcher, "-n", str(RANKS), "sh", "-c", script, "sh", BINARY,
                                          *map(str, arguments)], cwd=test.folder, text=True, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE)
        self.pids, self.watches = {}, []
        test.addCleanup(self.kill)
        while len(self.pids) < RANKS:
            with open(fifo, encoding="ascii") as ids:
                self.pids.update((int(rank), int(pid)) for rank, pid in (line.split() for line in ids))
        self.watches = [os.pidfd_open(pid) for pid in self.pids.values()]

    def kill(self):
        for watch in self.watches:
            try:
                signal.pidfd_send_signal(watch, signal.SIGKILL)
            except ProcessLookupError:
                pass
            os.close(watch)
        self.launcher.kill()
        self.launcher.communicate()

    def strike(self, what, after_s):
        """Sends a signal to one rank once it has worked for so long."""
        while used_seconds(self.pids[VICTIM]) < after_s:
            select.select([], [], [], 0.01)
        os.kill(self.pids[VICTIM], what)
        self.struck_at = time.monotonic()

    def finish(self, within_s):
        """@return the launcher's status and what was said, once all have ended."""
        _, says = self.launcher.communicate(timeout=within_s + SLACK_S)
        for watch in self.watches:
            ended = select.poll()
            ended.register(watch, select.POLLIN)
            if not ended.poll(1000 * SLACK_S):
                raise AssertionError("a process of the job still runs")
        return self.launcher.returncode, says


@unittest.skipUnless(MPIEXEC, "built without MPI")
class RankDeaths(ProgramTest):
    def strike(self, arguments, what, within_s, launcher=(), after_s=1.0):
        job = Job(self, launcher, arguments)
        job.strike(what, after_s)
        return job.finish(within_s)

    def check_named(self, says, verb):
        self.assertRegex(says, rf"(?m)^trimtab {verb}: rank 0: rank {VICTIM} has not (opened|left) its channel within \d+ ms$")

    def test_a_killed_rank_of_a_run(self):
        status, says = self.strike(RUN, signal.SIGKILL, within_s=0)
        self.assertNotEqual(status, 0)
        self.assertIn(f"rank {VICTIM}", says)  # The launcher's line.

    def test_a_killed_rank_that_the_launcher_does_not_answer(self):
        _, says = self.strike(RUN, signal.SIGKILL, 2 * DEADLINE_S, launcher=["--enable-recovery"])
        self.check_named(says, "run")

    def test_a_stopped_rank_of_a_run(self):
        status, says = self.strike(RUN, signal.SIGSTOP, 2 * DEADLINE_S)
        self.assertEqual(status, 5, says)
        self.check_named(says, "run")

    def test_a_stopped_rank_that_the_launcher_does_not_answer(self):
        _, says = self.strike(RUN, signal.SIGSTOP, 2 * DEADLINE_S, launcher=["--enable-recovery"])
        self.check_named(says, "run")

    def test_a_rank_that_is_stopped_before_it_has_begun(self):
        status, says = self.strike(RUN, signal.SIGSTOP, 2 * DEADLINE_S, after_s=0.0)
        self.assertEqual(status, 5, says)
        self.assertRegex(says, r"(?m)^trimtab run: .* within \d+ ms|MPI_Init_thread took more than \d+ ms")

    def test_a_killed_rank_of_a_campaign(self):
        status, says = self.strike(VERIFY, signal.SIGKILL, within_s=0)
        self.assertNotEqual(status, 0)
        self.assertIn(f"rank {VICTIM}", says)

    def test_a_stopped_rank_of_a_campaign(self):
        status, says = self.strike(VERIFY, signal.SIGSTOP, VERIFY_PATIENCE_S + 10)
        self.assertEqual(status, 5, says)
        # It may have come to a channel and stopped while that is opened: then MPI waits, and cannot say for whom.
        self.assertRegex(says, rf"(?m)^trimtab verify: (rank 0: rank {VICTIM} has not .* within|MPI_Comm_dup took more than) \d+ ms")


if __name__ == "__main__":
    unittest.main()
