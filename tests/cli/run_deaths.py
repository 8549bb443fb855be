# SPDX-License-Identifier: Apache-2.0
"""A rank of `trimtab run --transport ucx` dies in a forward: the others go on, and serve its tokens again."""

import json
import os
import unittest

from program import ProgramTest

SMALL = ("run", "--transport", "ucx", "--tokens", 64, "--hidden", 64, "--intermediate", 32, "--forwards", 16)
LAYERS = 4
EXPERTS = 32


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
