# SPDX-License-Identifier: Apache-2.0
"""`trimtab split`, and what follows from exact shares in `plan`."""

import itertools
import json
import math
import unittest

from program import ProgramTest, recorded_loads, shipped_traces


def rank_loads(shares, ranks):
    width = len(shares) // ranks
    return [sum(shares[r * width:(r + 1) * width]) for r in range(ranks)]


def confined_optimum(loads, row, ranks):
    """Largest load per rank of the experts that live on some set of ranks only: what no split can beat."""
    width = len(row) // ranks
    homes = [{r for r in range(ranks) if expert in row[r * width:(r + 1) * width]} for expert in range(len(loads))]
    best = 0.0
    for size in range(1, ranks + 1):
        for chosen in itertools.combinations(range(ranks), size):
            held = sum(load for load, home in zip(loads, homes) if home <= set(chosen))
            best = max(best, held / size)
    return best


class Split(ProgramTest):
    def write_inputs(self, loads, placement):
        self.write("loads.json", json.dumps({"logical_count": loads}))
        self.write("placement.json", json.dumps({"physical_to_logical_map": placement}))

    def split(self, *arguments):
        self.succeed("split", "loads.json", "--placement", "placement.json", *arguments, "--json", "split.json")
        return self.read_json("split.json")

    def test_document_has_the_stable_keys(self):
        self.write_inputs([[0, 0, 0], [30, 60, 10]], [[0, 1, 1, 2], [0, 1, 1, 2]])
        document = self.split("--ranks", 2)
        self.assertEqual(document["schema"], "trimtab.split/1")
        self.assertEqual([layer["layer"] for layer in document["layers"]], [1])
        self.assertLessEqual({"layer", "even", "exact", "noise_floor", "waterfill", "tight_ranks"},
                             set(document["layers"][0]))
        self.assertLessEqual({"even_mean", "even_worst", "exact_mean", "exact_worst", "noise_floor_mean",
                              "waterfill_mean", "solve_us_median"}, set(document["summary"]))

    def test_exact_is_what_brute_force_says(self):
        loads = [[31, 7, 44, 12, 5, 90], [80, 80, 1, 1, 1, 1], [9, 9, 9, 9, 9, 9]]
        rows = [[0, 5, 1, 2, 5, 3, 4, 2], [0, 1, 0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5, 0, 1]]
        self.write_inputs(loads, rows)
        document = self.split("--ranks", 4, "--shares")
        for layer, load, row in zip(document["layers"], loads, rows):
            optimum = confined_optimum(load, row, 4)
            self.assertAlmostEqual(layer["exact"], optimum / (sum(load) / 4))
            self.assertEqual(max(rank_loads(layer["assignments"], 4)), math.ceil(optimum - 1e-9))
            for expert, count in enumerate(load):
                self.assertEqual(sum(a for a, e in zip(layer["assignments"], row) if e == expert), count)

    def test_says_which_ranks_and_experts_hold_it_up(self):
        self.write_inputs([[10, 10, 70, 70, 5, 5]], [[0, 1, 2, 3, 4, 5, 0, 1]])
        document = self.split("--ranks", 4)
        self.assertEqual(document["layers"][0]["tight_ranks"], [1])
        self.assertEqual(document["layers"][0]["tight_experts"], [2, 3])
        text = self.succeed("split", "loads.json", "--placement", "placement.json", "--ranks", 4)
        self.assertIn("rank 1: expert 2 3", text)

    def test_shared_expert_tokens_fill_the_emptier_ranks(self):
        # 100 assignments of top-4 are 25 tokens: one shared expert adds 25, and (62 against 38) evens out at 62.5.
        self.write_inputs([[62, 38]], [[0, 1]])
        document = self.split("--ranks", 2, "--top-k", 4)
        self.assertAlmostEqual(document["layers"][0]["exact"], 1.24)
        self.assertAlmostEqual(document["layers"][0]["waterfill"], 1.0)
        document = self.split("--ranks", 2, "--top-k", 8)
        self.assertAlmostEqual(document["layers"][0]["waterfill"], 62 / 56.25)

    def test_tokens_stay_in_the_node_that_owns_their_group(self):
        # Groups {0, 1} and {2, 3}; rank 2 in the other node has a copy of expert 0 that would help.
        self.write_inputs([[60, 20, 10, 10]], [[0, 1, 1, 0, 2, 0, 3, 2]])
        arguments = ["--ranks", 4, "--nodes", 2, "--shares"]
        free = self.split(*arguments)["layers"][0]
        self.assertEqual(rank_loads(free["assignments"], 4), [27, 27, 26, 20])
        strict = self.split(*arguments, "--groups", 2)["layers"][0]
        self.assertEqual(rank_loads(strict["assignments"], 4)[:2], [40, 40])
        self.assertEqual(strict["assignments"][5], 0)
        self.assertEqual(self.split(*arguments, "--groups", 2, "--locality", "none")["layers"][0], free)
        message = self.fail_with(2, "split", "loads.json", "--placement", "placement.json", "--ranks", 4, "--nodes", 4,
                                 "--groups", 2, "--locality", "group-strict", says=["--locality", "4 nodes, 2 groups"])
        self.assertNotIn("placement.json", message)

    def test_replicas_below_the_fewest_assignments_are_given_up(self):
        self.write_inputs([[52, 48, 4]], [[0, 2, 1, 0]])
        free = self.split("--ranks", 2, "--shares")["layers"][0]
        self.assertEqual(free["assignments"], [48, 4, 48, 4])
        self.assertEqual((free["whole"], free["given_up"]), (1.0, 0))
        bound = self.split("--ranks", 2, "--shares", "--min-assignments", 10)["layers"][0]
        self.assertEqual(bound["assignments"], [52, 4, 48, 0])  # An expert keeps its last replica.
        self.assertEqual(bound["given_up"], 1)
        self.assertAlmostEqual(bound["whole"], 56 / 52)
        self.assertEqual(bound["exact"], 1.0)
        text = self.succeed("split", "loads.json", "--placement", "placement.json", "--ranks", 2,
                            "--min-assignments", 10)
        self.assertIn("1 replicas are given up", text)

    def test_dead_and_slow_ranks(self):
        self.write_inputs([[60, 30]], [[0, 1, 0, 1, 0, 1]])
        document = self.split("--ranks", 3, "--avoid-ranks", 1, "--rank-speeds", "1,1,2", "--shares")
        self.assertEqual(rank_loads(document["layers"][0]["assignments"], 3), [30, 0, 60])
        self.assertAlmostEqual(document["layers"][0]["exact"], 1.0)

    def test_fractional_loads_have_an_optimum_too(self):
        self.write_inputs([[0.5, 1.25, 0.25]], [[0, 1, 1, 2]])
        self.assertAlmostEqual(self.split("--ranks", 2)["summary"]["exact_mean"], 1.0)

    def test_noise_floor_falls_with_the_batch(self):
        self.write_inputs([[1, 1]], [[0, 1]])
        small = self.split("--ranks", 2, "--batch-tokens", 16)["summary"]["noise_floor_mean"]
        large = self.split("--ranks", 2, "--batch-tokens", 4096)["summary"]["noise_floor_mean"]
        self.assertAlmostEqual((small - 1) / (large - 1), 16, places=6)
        self.assertAlmostEqual(small, 1 + math.sqrt(2 / (math.pi * 2 * 16 * 8)), places=6)

    def test_layers_and_top_choose_what_is_listed(self):
        self.write_inputs([[1, 1], [3, 1], [9, 1]], [[0, 1]] * 3)
        self.assertEqual(self.split("--ranks", 2, "--layers", "0:2")["summary"]["layers"], 2)
        document = self.split("--ranks", 2, "--top", 1)
        self.assertEqual([layer["layer"] for layer in document["layers"]], [2])
        self.assertEqual(document["summary"]["layers"], 3)

    def test_reads_standard_input_and_writes_standard_output(self):
        self.write_inputs([[3, 1]], [[0, 1]])
        out = self.succeed("split", "-", "--placement", "placement.json", "--ranks", 2, "--json", "-",
                           stdin='{"logical_count": [[3, 1]]}')
        self.assertEqual(json.loads(out)["summary"]["exact_mean"], 1.5)

    def test_refuses_what_does_not_fit(self):
        arguments = ["split", "loads.json", "--placement", "placement.json"]
        self.write_inputs([[3, 1], [1, 1]], [[0, 1]])
        self.fail_with(3, *arguments, "--ranks", 2, says=["placement.json: 1 layers", "loads.json has 2"])
        self.write_inputs([[3, 1]], [[0, 2]])
        self.fail_with(3, *arguments, "--ranks", 2, says=["placement.json", "layer 0", "slot 1", "2"])
        self.write_inputs([[3, 1]], [[0, 1]])
        self.fail_with(4, *arguments, "--ranks", 2, "--avoid-ranks", 1, says=["placement.json", "expert 1"])
        self.fail_with(2, *arguments, "--ranks", 2, "--slots", 4, says=["--slots", "4 slots", "has 2"])
        self.fail_with(2, *arguments, "--ranks", 2, "--shares", says=["--shares", "--json"])
        self.fail_with(2, *arguments, "--ranks", 2, "--json", "loads.json", says=["--json"])
        self.fail_with(2, *arguments, "--ranks", 2, "--layers", "0:2", says=["--layers"])
        self.assertEqual(self.files(), ["loads.json", "placement.json"])

    def test_one_plan_for_recorded_workloads_hardly_suffers_with_the_exact_split(self):
        files = recorded_loads("deepseek-v3_*.json")
        if not files:
            self.skipTest("no recorded loads")
        self.succeed("plan", *files, "--ranks", 32, "--slots", 352, "--split", "exact", "-o", "placement.json")
        worst = 0.0
        for file in files:
            self.succeed("split", file, "--placement", "placement.json", "--ranks", 32, "--json", "split.json")
            summary = self.read_json("split.json")["summary"]
            self.assertLessEqual(summary["exact_mean"], summary["even_mean"])
            worst = max(worst, summary["exact_mean"])
        self.assertLessEqual(worst, 1.02)


    def test_one_plan_for_all_domains(self):
        self.succeed("plan", *shipped_traces(), "--ranks", 8, "--slots", 48, "--split", "exact", "-o", "placement.json")
        for trace in shipped_traces():
            self.succeed("split", trace, "--placement", "placement.json", "--ranks", 8, "--json", "split.json")
            summary = self.read_json("split.json")["summary"]
            self.assertLess(summary["exact_mean"], summary["even_mean"])
            self.assertLessEqual(summary["exact_mean"], 1.1)


class SweepSlots(ProgramTest):
    def sweep(self, *arguments):
        self.succeed("plan", *arguments, "--json", "sweep.json")
        return self.read_json("sweep.json")

    def test_more_slots_never_hurt_much_and_exact_needs_fewer(self):
        self.succeed("generate", "--layers", 4, "--experts", 64, "--sigma", 0.5, "--seed", 3, "-o", "loads.json")
        document = self.sweep("loads.json", "--ranks", 8, "--sweep-slots", "64:96:8")
        self.assertEqual(document["schema"], "trimtab.sweep/1")
        self.assertEqual([point["slots"] for point in document["points"]], [64, 72, 80, 88, 96])
        self.assertEqual([point["redundant"] for point in document["points"]], [0, 8, 16, 24, 32])
        for point in document["points"]:
            self.assertLessEqual(point["exact"]["mean"], point["even"]["mean"] + 1e-9)
            self.assertLessEqual(point["even_split"]["mean"], point["even"]["mean"] + 1e-9)
        # Ranks - 1 extra copies are enough for perfect shares.
        self.assertLessEqual(document["points"][1]["exact"]["mean"], 1.001)

    def test_one_plan_for_several_files(self):
        for seed in (3, 4):
            self.succeed("generate", "--layers", 2, "--experts", 32, "--seed", seed, "-o", f"{seed}.json")
        both = self.sweep("3.json", "4.json", "--ranks", 4, "--sweep-slots", "40:40:1")
        alone = self.sweep("3.json", "--ranks", 4, "--sweep-slots", "40:40:1")
        self.assertEqual(both["scenarios"], 2)
        self.assertGreater(both["points"][0]["even"]["mean"], alone["points"][0]["even"]["mean"])

    def test_refuses_ranges_and_options_that_do_not_fit(self):
        self.write("loads.json", '{"logical_count": [[1, 2, 3, 4]]}')
        arguments = ["plan", "loads.json", "--ranks", 2]
        for text in ("4", "4:8", "4:8:", "x:8:1", "4:8:1:1", "4:8:1 "):
            self.fail_with(2, *arguments, "--sweep-slots", text, says=["--sweep-slots", "FIRST:LAST:STEP"])
        for text in ("8:4:1", "0:4:1", "4:8:0", "4:9999999:1"):
            self.fail_with(2, *arguments, "--sweep-slots", text, says=["--sweep-slots", text])
        self.fail_with(2, *arguments, "--sweep-slots", "4:8:1", "-o", "p.json", says=["--sweep-slots", "-o"])
        self.fail_with(2, *arguments, "--sweep-slots", "4:8:1", "--slots", 6, says=["--sweep-slots", "--slots"])
        self.fail_with(4, *arguments, "--sweep-slots", "2:8:2", says=["loads.json", "2", "4 experts"])
        self.fail_with(2, *arguments, "--slots", 6, says=["--output", "required"])
        self.assertEqual(self.files(), ["loads.json"])


if __name__ == "__main__":
    unittest.main()
