# SPDX-License-Identifier: Apache-2.0
"""`trimtab plan` with one budget for all layers: --total-slots, --memory-budget."""

import unittest

from program import ProgramTest

EXPERTS, RANKS = 64, 16
LAYERS, DENSE = 6, 1


class PlanBudget(ProgramTest):
    def setUp(self):
        super().setUp()
        self.succeed("generate", "--layers", LAYERS, "--dense-layers", DENSE, "--experts", EXPERTS, "--outliers", 2,
                     "--sigma", 1, "-o", "loads.json")

    def plan(self, *arguments):
        text = self.succeed("plan", "loads.json", "--ranks", RANKS, "-o", "placement.json", "--json", "plan.json",
                            *arguments)
        return text, self.read_json("plan.json")

    def check(self, document, budget):
        rows = self.read_json("placement.json")["physical_to_logical_map"]
        summary, curve = document["summary"], document["slot_budget"]["curve"]
        self.assertEqual(document["slot_budget"]["budget"], budget)
        self.assertEqual(summary["total_slots"], sum(entry["slots"] for entry in document["layers"]))
        self.assertLessEqual(summary["total_slots"], budget)
        self.assertEqual(len(document["layers"]), LAYERS - DENSE)
        for entry in document["layers"]:
            row = rows[entry["layer"]]
            held = [expert for expert in row if expert != -1]
            self.assertEqual(len(held), entry["slots"])
            self.assertEqual(set(held), set(range(EXPERTS)))
            width = len(row) // RANKS
            of_ranks = [row[r * width:(r + 1) * width] for r in range(RANKS)]
            self.assertEqual({width - part.count(-1) for part in of_ranks}, {entry["slots"] // RANKS})
        self.assertEqual(curve[-1]["total_slots"], summary["total_slots"])
        costs = [point["max_load_sum"] for point in curve]
        self.assertEqual(costs, sorted(costs, reverse=True))

    def test_total_slots(self):
        budget = 85 * (LAYERS - DENSE)
        text, document = self.plan("--total-slots", budget)
        self.check(document, budget)
        self.assertIn(f"of {budget} slots used", text)

    def test_memory_budget(self):
        _, document = self.plan("--memory-budget", "18GiB", "--expert-bytes", "42MiB")
        self.check(document, 18 * 1024 // 42)

    def test_same_bytes_on_any_number_of_threads(self):
        seen = set()
        for threads in (1, 2, 7):
            self.plan("--total-slots", 430, "--threads", threads)
            seen.add((self.folder / "placement.json").read_bytes())
        self.assertEqual(len(seen), 1)

    def test_too_small_a_budget_is_infeasible(self):
        arguments = ["plan", "loads.json", "--ranks", RANKS, "-o", "placement.json"]
        says = ["loads.json", "5 layers with 4 slots on each of 16 live ranks", "64 experts"]
        self.fail_with(4, *arguments, "--total-slots", 319, says=["319 slots in total < 320", *says])
        self.fail_with(4, *arguments, "--memory-budget", 3199, "--expert-bytes", 10, says=["319", *says])
        self.assertEqual(self.files(), ["loads.json"])

    def test_options_that_contradict_each_other(self):
        arguments = ["plan", "loads.json", "--ranks", RANKS, "-o", "placement.json"]
        self.fail_with(2, *arguments, "--total-slots", 400, "--slots", 80, says=["--slots", "--total-slots"])
        self.fail_with(2, *arguments, "--total-slots", 400, "--memory-budget", "1GB", "--expert-bytes", 1,
                       says=["--total-slots"])
        self.fail_with(2, *arguments, "--memory-budget", "1GB", says=["--expert-bytes"])
        self.fail_with(2, *arguments, "--slots", 80, "--expert-bytes", 5, says=["--memory-budget"])
        self.fail_with(2, *arguments, "--memory-budget", "1 cow", "--expert-bytes", 5, says=["--memory-budget"])
        self.fail_with(2, *arguments, "--memory-budget", "1GB", "--expert-bytes", 0, says=["--expert-bytes"])
        self.fail_with(2, *arguments, "--total-slots", 0, says=["--total-slots", "0"])


if __name__ == "__main__":
    unittest.main()
