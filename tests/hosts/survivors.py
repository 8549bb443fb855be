# SPDX-License-Identifier: Apache-2.0
"""With a folder for checkpoints a job goes on without ranks that are killed, stopped or cut off, whenever that
is: the half with the lowest rank, or more. The others end in time, each with a word why."""

import json
import os
import re
import signal
import time

from faults import OnFaultyNodes, some
from launchers import RANKS
from on_two_nodes import SIZES

FORWARDS = 600  # Some seconds.
ENOUGH_SLOTS = 16  # On two ranks for all experts.
LOST = 5


class Survivors(OnFaultyNodes):
    """Skipped where no rank outlives another."""

    def setUp(self):
        super().setUp()
        if not self.launcher.has_survivors:
            self.skipTest(f"no rank of an {self.launcher.transport} job outlives another")

    def start_run(self, *arguments, forwards=FORWARDS):
        self.deadline_s = self.launcher.deadline_s
        self.checkpoint = self.folder / "checkpoint"
        self.checkpoint.mkdir(exist_ok=True)
        for shard in self.checkpoint.iterdir():
            shard.unlink()
        return self.launch("run", "--nodes", 2, *SIZES, "--forwards", forwards, "--rebalance-every", 2,
                           "--slots-per-rank", ENOUGH_SLOTS, "--checkpoint", self.checkpoint,
                           "--deadline-ms", 1000 * self.deadline_s, "--json", "run.json", *arguments)

    def await_service(self, seconds):
        """For all to have met and written, and then for a while."""
        while len(list(self.checkpoint.glob("*.safetensors"))) < RANKS:
            time.sleep(0.005)
        time.sleep(0.2 + seconds)

    def latest(self):
        return super().latest() + 30  # The rest of the run.

    def check_survival(self, job, lost, statuses_of_lost):
        statuses, said = job.finish(60)
        members = [rank for rank in range(RANKS) if rank not in lost]
        self.assertEqual([statuses[rank] for rank in members], [0] * len(members), said)
        self.assertEqual([statuses[rank] for rank in lost], list(statuses_of_lost), said)
        speakers = re.findall(r"(?m)^trimtab run: rank (\d): ", said)
        self.assertEqual(sorted(map(int, speakers)), [rank for rank in lost if statuses[rank] > 0], said)
        document = json.loads((self.folder / "run.json").read_text(encoding="utf-8"))
        self.assertIs(document["outputs_identical"], True)
        self.assertGreater(document["reference_checked"], 0)
        self.assertEqual((document["death"]["lost"], document["death"]["members"]), (list(lost), members))
        print(f"lost {lost} in forward {document['death']['forward']}, "
              f"{document['death']['recovery_ms']:.0f} ms to recover")

    def test_a_cut_link_is_outlived(self):
        for after_s in some((0.0, 0.3, 0.7, 1.5, 2.5), few=(0.5,)):
            with self.subTest(after_s=after_s):
                job = self.start_run()
                self.await_service(after_s)
                with self.cut_link():
                    self.check_survival(job, (2, 3), (LOST, LOST))

    def test_a_killed_rank_is_outlived(self):
        for rank, after_s in some(((3, 0.0), (0, 0.2), (2, 0.5), (0, 1.0), (1, 1.5), (3, 2.5)), few=((0, 0.3), (2, 0.6))):
            with self.subTest(rank=rank, after_s=after_s):
                job = self.start_run()
                self.await_service(after_s)
                os.kill(self.pids[rank], signal.SIGKILL)
                self.check_survival(job, (rank,), (-signal.SIGKILL,))

    def test_a_stopped_rank_is_outlived(self):
        for rank, after_s in some(((0, 0.1), (1, 0.8), (3, 1.5)), few=((1, 0.4),)):
            with self.subTest(rank=rank, after_s=after_s):
                job = self.start_run()
                self.await_service(after_s)
                os.kill(self.pids[rank], signal.SIGSTOP)
                self.await_end(self.latest(), besides=[self.pids[rank]])
                os.kill(self.pids[rank], signal.SIGCONT)
                self.check_survival(job, (rank,), (LOST,))

    def test_a_rank_that_kills_itself_is_outlived(self):
        self.check_survival(self.start_run("--inject-fault", "kill:0", forwards=16), (0,), (-signal.SIGKILL,))
