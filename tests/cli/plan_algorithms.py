# SPDX-License-Identifier: Apache-2.0
"""`trimtab plan --algorithm`: what another system's planner would do."""

import unittest

from program import ProgramTest

NAMES = ("deepseek", "trtllm", "vllm")
# The worked example of deepseek-ai/EPLB: two layers, twelve experts.
README = '{"logical_count": [[90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86],' \
         ' [20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27]]}'


class PlanAlgorithms(ProgramTest):
    def plan(self, algorithm, *arguments):
        """(what is said, the document, the map)"""
        text = self.succeed("plan", "loads.json", "-o", "placement.json", "--json", "plan.json", "--algorithm", algorithm,
                            *arguments)
        return text, self.read_json("plan.json"), self.read_json("placement.json")["physical_to_logical_map"]

    def test_the_example_of_deepseek(self):
        self.write("loads.json", README)
        text, document, rows = self.plan("deepseek", "--ranks", 8, "--nodes", 2, "--slots", 16, "--groups", 4)
        self.assertEqual(rows, [[5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1],
                                [7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1]])
        self.assertIn("algorithm  deepseek\n", text)
        self.assertEqual((document["algorithm"], document["locality"]), ("deepseek", "group-strict"))

    def test_native_is_the_default_and_named(self):
        self.write("loads.json", README)
        text, document, rows = self.plan("native", "--ranks", 8, "--slots", 16)
        self.assertIn("algorithm  native\n", text)
        self.assertEqual(document["algorithm"], "native")
        self.succeed("plan", "loads.json", "--ranks", 8, "--slots", 16, "-o", "placement.json")
        self.assertEqual(self.read_json("placement.json")["physical_to_logical_map"], rows)

    def test_layers_without_load_are_planned(self):
        self.write("loads.json", '{"logical_count": [[0, 0, 0, 0], [9, 1, 1, 1]]}')
        for name in NAMES:
            _, document, rows = self.plan(name, "--ranks", 2, "--slots", 8)
            self.assertEqual([entry["layer"] for entry in document["layers"]], [0, 1])
            self.assertEqual(set(rows[0]), {0, 1, 2, 3})
        self.assertEqual(rows[0].count(0), 5)  # vLLM's and DeepSeek's rule: the first expert gets every copy.

    def test_layers_outside_the_range_stay_identity(self):
        self.write("loads.json", '{"logical_count": [[1, 2, 3], [9, 1, 1], [3, 2, 1]]}')
        for name in NAMES:
            _, _, whole = self.plan(name, "--ranks", 2, "--slots", 4)
            _, document, part = self.plan(name, "--ranks", 2, "--slots", 4, "--layers", "1:2")
            self.assertEqual(part, [[0, 1, 2, 0], whole[1], [0, 1, 2, 0]])
            self.assertEqual([entry["layer"] for entry in document["layers"]], [1])

    def test_second_copies_on_a_rank_are_told(self):
        self.write("loads.json", '{"logical_count": [[17, 13, 10, 6]]}')
        for name in NAMES:
            text, document, _ = self.plan(name, "--ranks", 2, "--slots", 6)
            self.assertEqual(document["summary"]["duplicates_on_rank"], 2)
            self.assertIn("duplicates 2 slots", text)

    def test_same_bytes_on_any_number_of_threads(self):
        self.succeed("generate", "--layers", 9, "--experts", 64, "-o", "loads.json")
        for name in NAMES:
            seen = set()
            for threads in (1, 2, 7):
                self.plan(name, "--ranks", 16, "--nodes", 4, "--groups", 8, "--slots", 96, "--threads", threads)
                seen.add((self.folder / "placement.json").read_bytes())
            self.assertEqual(len(seen), 1)

    def refuse(self, status, *arguments, says):
        self.fail_with(status, "plan", "loads.json", "-o", "placement.json", *arguments, says=says)
        self.assertNotIn("placement.json", self.files())

    def test_what_cannot_be_planned_is_refused(self):
        self.write("loads.json", README)
        self.refuse(2, "--algorithm", "deepseek", "--ranks", 5, "--slots", 16,
                    says=["--algorithm", "equally many slots on each rank: rank 0 has 4, rank 1 has 3"])
        self.refuse(2, "--algorithm", "vllm", "--ranks", 3, "--nodes", 2, "--groups", 6, "--slots", 18,
                    says=["2 nodes do not divide 3 ranks"])
        self.refuse(2, "--algorithm", "trtllm", "--ranks", 4, "--slots", 16, "--allow-vacant", says=["vacant"])
        self.refuse(2, "--algorithm", "greedy", "--ranks", 4, "--slots", 16, says=["greedy"])
        self.refuse(4, "--algorithm", "deepseek", "--ranks", 4, "--slots", 8,
                    says=["loads.json: 8 slots < 12 experts: every expert needs one"])


if __name__ == "__main__":
    unittest.main()
