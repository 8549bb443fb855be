# SPDX-License-Identifier: Apache-2.0
"""A rank of `trimtab run --transport ucx` dies in a forward: the others go on, and serve its tokens again."""

import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

from program import BINARY, ProgramTest

SERVICE = ("run", "--transport", "ucx", "--tokens", 64, "--hidden", 64, "--intermediate", 32, "--forwards")
SMALL = (*SERVICE, 16)
LAYERS = 4
EXPERTS = 32


PATIENCE_S = 60  # For a machine that is busy otherwise.


class UnaskedDeaths(ProgramTest):
    def setUp(self):
        super().setUp()
        self.parent = subprocess.Popen([BINARY, *map(str, SERVICE), "1000000", "--ranks", "3",
                                        "--deadline-ms", "3000"], cwd=self.folder, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.parent.communicate)
        self.addCleanup(self.parent.kill)
        self.ranks = self.wait_for(self.children, lambda ranks: len(ranks) == 3)
        self.addCleanup(lambda: [os.close(rank) for rank in self.ranks])
        # Until they have met: then each has a thread of UCX beside its own.
        self.wait_for(lambda: [len(os.listdir(f"/proc/{child}/task")) for child in self.pids], lambda n: min(n) > 1)

    def children(self):
        self.pids = pathlib.Path(f"/proc/{self.parent.pid}/task/{self.parent.pid}/children").read_text().split()
        return [os.pidfd_open(int(child)) for child in self.pids] if len(self.pids) == 3 else []

    def wait_for(self, look, is_enough):
        deadline = time.monotonic() + PATIENCE_S
        while not is_enough(seen := look()):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return seen

    def test_end_the_run_and_are_named(self):
        signal.pidfd_send_signal(self.ranks[1], signal.SIGKILL)
        _, errors = self.parent.communicate(timeout=PATIENCE_S)
        self.assertEqual(self.parent.returncode, 5, errors)
        self.assertEqual(errors, "trimtab run: rank 1 was killed by signal 9\n")

    def test_of_the_parent_takes_the_ranks_along(self):
        self.parent.kill()
        self.wait_for(lambda: [pathlib.Path(f"/proc/{child}").exists() and
                               " Z " not in pathlib.Path(f"/proc/{child}/stat").read_text()
                               for child in self.pids], lambda alive: not any(alive))


class RunDeaths(ProgramTest):
    def setUp(self):
        super().setUp()
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()
        os.environ["TMPDIR"] = str(self.scratch)
        self.addCleanup(os.environ.pop, "TMPDIR")

    def serve(self, *arguments):
        result = self.trimtab(*SMALL, "--json", "run.json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads((self.folder / "run.json").read_text())

    def test_no_death_is_told_where_nobody_dies(self):
        self.assertIsNone(self.serve("--ranks", 2)["death"])

    def test_any_rank_may_die(self):
        for rank in range(3):
            document = self.serve("--ranks", 3, "--slots-per-rank", 18, "--inject-fault", f"kill:{rank}")
            death = document["death"]
            self.assertTrue(document["outputs_identical"])
            self.assertGreater(document["reference_checked"], 0)
            self.assertEqual(death["rank"], rank)
            self.assertEqual(death["members"], [other for other in range(3) if other != rank])
            self.assertGreater(death["tokens_taken_over"], 0)
            self.assertEqual(death["tokens_taken_over"] % 64, 0)
            self.assertGreater(death["experts_lost"], 0)
            self.assertLessEqual(death["experts_lost"], LAYERS * 18)
            self.assertGreater(death["bytes_recovered"], 0)
            blocks = document["blocks"]
            after = [block for block in blocks if block["first_forward"] > death["forward"]]
            self.assertTrue(after)
            self.assertTrue(all(block["balancing"] for block in after), "the off arm cannot go on")
            self.assertEqual(os.listdir(self.scratch), [], "the checkpoint is gone")

    def test_the_lower_of_two_may_go_on_alone(self):
        document = self.serve("--ranks", 2, "--slots-per-rank", EXPERTS, "--inject-fault", "kill:1")
        self.assertTrue(document["outputs_identical"])
        self.assertEqual(document["death"]["members"], [0])
        self.assertEqual(document["death"]["experts_lost"], 0)

    def test_the_higher_of_two_cannot_know_that_it_is_alone(self):
        self.fail_with(5, *SMALL, "--ranks", 2, "--slots-per-rank", EXPERTS, "--inject-fault", "kill:0",
                       "--deadline-ms", 1000, says=("rank 1: rank 0 is gone",))

    def test_the_ranks_left_need_a_slot_for_every_expert(self):
        result = self.trimtab(*SMALL, "--ranks", 3, "--inject-fault", "kill:1")
        self.assertEqual(result.returncode, 4)
        self.assertEqual(result.stderr, "trimtab run: kill:1: the ranks left have 24 slots per layer < 32 experts\n")

    def test_nobody_is_killed_who_is_not_there(self):
        result = self.trimtab(*SMALL, "--ranks", 3, "--inject-fault", "kill:3")
        self.assertEqual(result.returncode, 4)
        self.assertEqual(result.stderr, "trimtab run: kill:3: there are 3 ranks, from 0\n")

    def test_wrong_kills_are_usage_errors(self):
        for arguments in (("kill:x",), ("kill:1:2",), ("kill",), ("kill:0", "--inject-fault", "kill:1")):
            result = self.trimtab(*SMALL, "--ranks", 3, "--inject-fault", *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn("--inject-fault", result.stderr)
        result = self.trimtab("run", "--inject-fault", "kill:1")
        self.assertEqual(result.returncode, 2)
        self.assertIn("kill needs --transport ucx", result.stderr)


if __name__ == "__main__":
    unittest.main()
