# SPDX-License-Identifier: Apache-2.0
"""What the planning options of `trimtab plan` do, each checked against its definition."""

import json
import unittest

from program import ProgramTest

EXPERTS = 64


def rank_loads(loads, row, widths, dead=()):
    """Load of each rank under even shares over the replicas on live ranks."""
    owner = [rank for rank, width in enumerate(widths) for _ in range(width)]
    copies = [0] * len(loads)
    for rank, expert in zip(owner, row):
        if expert >= 0 and rank not in dead:
            copies[expert] += 1
    carried = [0.0] * len(widths)
    for rank, expert in zip(owner, row):
        if expert >= 0 and rank not in dead:
            carried[rank] += loads[expert] / copies[expert]
    return carried


def imbalance(loads, row, ranks):
    carried = rank_loads(loads, row, [len(row) // ranks] * ranks)
    return max(carried) * ranks / sum(carried)


def spill(loads, row, nodes, groups):
    """Share of the load away from the node that serves most of its group (two groups per node at most here)."""
    width, size = len(row) // nodes, len(loads) // groups
    served = [[0.0] * nodes for _ in range(groups)]
    for slot, expert in enumerate(row):
        served[expert // size][slot // width] += loads[expert] / row.count(expert)
    return 1 - sum(map(max, served)) / sum(loads)


class PlanningOptions(ProgramTest):
    def generate(self, seed=1, name="loads.json", outliers=2):
        self.succeed("generate", "--layers", 4, "--experts", EXPERTS, "--outliers", outliers, "--seed", seed, "-o", name)
        return self.read_json(name)["logical_count"]

    def plan(self, *arguments, loads="loads.json"):
        text = self.succeed("plan", loads, "-o", "placement.json", "--json", "plan.json", *arguments)
        return text, self.read_json("placement.json")["physical_to_logical_map"], self.read_json("plan.json")

    def test_more_effort_never_ends_above_less(self):
        self.generate(outliers=0)
        means = [self.plan("--ranks", 36, "--slots", 72, "--effort", effort)[2]["summary"]["imbalance_mean"]
                 for effort in ("fast", "default", "thorough")]
        self.assertLess(means[1], means[0])
        self.assertLessEqual(means[2], means[1])

    def test_gap_is_imbalance_over_bound(self):
        self.generate()
        _, _, document = self.plan("--ranks", 36, "--slots", 72)
        gaps = [layer["gap"] for layer in document["layers"]]
        for layer in document["layers"]:
            self.assertAlmostEqual(layer["gap"], layer["imbalance"] / layer["bound"] - 1, 12)
        self.assertAlmostEqual(document["summary"]["gap_mean"], sum(gaps) / len(gaps), 12)
        self.assertEqual(document["summary"]["gap_worst"], max(gaps))

    def test_spill_lowers_the_node_floor_and_stays_within_its_limit(self):
        loads = self.generate()
        cluster = ["--ranks", 8, "--nodes", 4, "--slots", 80, "--groups", 8]
        _, _, strict = self.plan(*cluster)
        self.assertEqual(strict["locality"], "group-strict")
        self.assertEqual(strict["summary"]["locality_spill"], 0)
        text, placement, spilled = self.plan(*cluster, "--locality", "group-spill=0.1")
        self.assertIn("served outside the home node", text)
        self.assertEqual(spilled["locality"], "group-spill")
        self.assertLess(spilled["summary"]["imbalance_mean"] - 1, (strict["summary"]["imbalance_mean"] - 1) / 2)
        for entry, row, load in zip(spilled["layers"], placement, loads):
            self.assertLessEqual(entry["locality_spill"], 0.1 + 1e-12)
            self.assertLessEqual(spill(load, row, 4, 8), entry["locality_spill"] + 1e-12)

    def test_spill_curve_goes_from_strict_to_free(self):
        self.generate()
        text, _, document = self.plan("--ranks", 8, "--nodes", 4, "--slots", 80, "--groups", 8, "--top-groups", 4,
                                      "--top-k", 8, "--spill-curve")
        curve = document["spill_curve"]
        self.assertEqual(curve[0]["limit"], 0)
        self.assertEqual(curve[0]["imbalance_mean"], document["summary"]["imbalance_mean"])
        self.assertLess(curve[-1]["imbalance_mean"], 1.01)
        self.assertGreater(curve[-1]["nodes_per_token_mean"], document["nodes_per_token_mean"])
        self.assertEqual(curve[0]["nodes_per_token_max"], 4)
        for point in curve:
            self.assertLessEqual(point["locality_spill"], point["limit"] + 1e-12)
            self.assertIn(f"{point['imbalance_mean']:.4f}", text)

    def test_plans_for_the_exact_split_connect_the_ranks(self):
        self.generate()
        text, placement, document = self.plan("--ranks", 8, "--slots", 80, "--split", "exact")
        self.assertIn("replicas   connect the ranks into 1.0 components", text)
        self.assertEqual(document["summary"]["components_worst"], 1)
        for entry in document["layers"]:
            held = [set(placement[entry["layer"]][rank * 10:rank * 10 + 10]) for rank in range(8)]
            reached = {0}
            for _ in range(8):
                reached |= {b for a in reached for b in range(8) if held[a] & held[b]}
            self.assertEqual(len(reached), 8)
            self.assertEqual(entry["components"], 1)

    def test_several_load_files_are_planned_for_together(self):
        first, second = self.generate(1), self.generate(2, "other.json")
        cluster = ["--ranks", 8, "--slots", 80]
        _, placement, document = self.plan("other.json", *cluster)
        _, alone, _ = self.plan(*cluster)
        for entry in document["layers"]:
            layer = entry["layer"]
            worst = max(imbalance(loads[layer], placement[layer], 8) for loads in (first, second))
            self.assertAlmostEqual(entry["imbalance"], worst, 9)
            self.assertLess(worst, imbalance(second[layer], alone[layer], 8))
        _, by_option, _ = self.plan(*cluster, "--loads", "other.json")
        self.assertEqual(by_option, placement)

    def test_weights_say_which_file_matters(self):
        first, second = self.generate(1), self.generate(2, "other.json")
        for weights, loads in (("1,0", first), ("0,1", second)):
            _, placement, document = self.plan("other.json", "--ranks", 8, "--slots", 80, "--objective",
                                               "weighted-mean", "--weights", weights)
            for entry in document["layers"]:
                self.assertAlmostEqual(entry["imbalance"], imbalance(loads[entry["layer"]],
                                                                     placement[entry["layer"]], 8), 9)

    def test_variance_makes_scenarios_of_one_file(self):
        loads = self.generate()
        self.write("none.json", json.dumps({"logical_count": [[0] * EXPERTS] * len(loads)}))
        self.write("some.json", json.dumps({"logical_count": [[load * 100 for load in row] for row in loads]}))
        cluster = ["--ranks", 8, "--slots", 80]
        _, certain, _ = self.plan(*cluster)
        _, same, _ = self.plan(*cluster, "--variance", "none.json")
        self.assertEqual(same, certain)
        _, other, document = self.plan(*cluster, "--variance", "some.json", "--samples", 12)
        self.assertNotEqual(other, certain)
        for entry in document["layers"]:  # the loads themselves are one of the scenarios
            self.assertGreaterEqual(entry["imbalance"], imbalance(loads[entry["layer"]], other[entry["layer"]], 8))

    def test_avoided_ranks_get_nothing(self):
        loads = self.generate()
        _, placement, document = self.plan("--ranks", 8, "--slots", 88, "--avoid-ranks", "0,5")
        for entry in document["layers"]:
            row = placement[entry["layer"]]
            self.assertEqual(set(row[0:11] + row[55:66]), {-1})
            self.assertEqual(set(row) - {-1}, set(range(EXPERTS)))
            carried = rank_loads(loads[entry["layer"]], row, [11] * 8, dead=(0, 5))
            self.assertAlmostEqual(entry["imbalance"], max(carried) * 6 / sum(carried), 9)

    def test_uneven_ranks_carry_by_speed(self):
        loads = self.generate()
        widths, speeds = [20, 20, 10, 20], [1, 1, 0.5, 2]
        _, placement, document = self.plan("--ranks", 4, "--rank-slots", "20,20,10,20", "--rank-speeds", "1,1,0.5,2")
        for entry in document["layers"]:
            carried = rank_loads(loads[entry["layer"]], placement[entry["layer"]], widths)
            pressure = [load / speed for load, speed in zip(carried, speeds)]
            self.assertAlmostEqual(entry["imbalance"], max(pressure) * 4.5 / sum(carried), 9)
            self.assertLess(entry["imbalance"], 1.05)

    def test_any_number_of_ranks(self):
        loads = self.generate()
        for ranks, slots in ((3, 72), (6, 67), (64, 64), (5, 64)):
            _, placement, document = self.plan("--ranks", ranks, "--slots", slots)
            widths = [slots // ranks + (rank < slots % ranks) for rank in range(ranks)]
            for entry in document["layers"]:
                carried = rank_loads(loads[entry["layer"]], placement[entry["layer"]], widths)
                self.assertAlmostEqual(entry["imbalance"], max(carried) * ranks / sum(carried), 9)
                self.assertEqual(entry["duplicates_on_rank"], 0)

    def test_refuses_what_does_not_fit(self):
        self.generate()
        self.write("small.json", '{"logical_count": [[1, 2, 3, 4]]}')
        plan = ["plan", "loads.json", "-o", "p.json", "--ranks", 4]
        for says, status, arguments in (
            (["--rank-slots", "3 numbers for 4 ranks"], 2, ["--rank-slots", "30,30,30"]),
            (["--rank-speeds", "2 numbers for 4 ranks"], 2, ["--slots", 64, "--rank-speeds", "1,1"]),
            (["--rank-speeds", "0"], 2, ["--slots", 64, "--rank-speeds", "1,1,0,1"]),
            (["--avoid-ranks", "rank 4 is not in 0..3"], 2, ["--slots", 64, "--avoid-ranks", "4"]),
            (["--avoid-ranks"], 2, ["--slots", 64, "--avoid-ranks", "0,1,2,3"]),
            (["48 live slots < 64 experts"], 4, ["--slots", 64, "--avoid-ranks", "1"]),
            (["--rank-slots"], 2, ["--slots", 64, "--rank-slots", "16,16,16,16"]),
            (["--slots"], 2, []),
            (["group-spill=1.5", "0..1"], 2, ["--slots", 64, "--locality", "group-spill=1.5"]),
            (["group-spill", "0..1"], 2, ["--slots", 64, "--locality", "group-spill"]),
            (["nowhere"], 2, ["--slots", 64, "--locality", "nowhere"]),
            (["--locality", "4 nodes, 2 groups"], 2,
             ["--slots", 64, "--nodes", 4, "--groups", 2, "--locality", "group-spill=0.1"]),
            (["--effort", "most"], 2, ["--slots", 64, "--effort", "most"]),
            (["--objective", "best"], 2, ["--slots", 64, "--objective", "best"]),
            (["--weights", "2 weights for 1 load files"], 2,
             ["--slots", 64, "--objective", "weighted-mean", "--weights", "1,2"]),
            (["--weights", "weighted-mean"], 2, ["--slots", 64, "--weights", "1"]),
            (["--top-groups", "3 > 2 groups"], 2, ["--slots", 64, "--groups", 2, "--top-groups", 3]),
            (["--spill-curve", "1 groups"], 2, ["--slots", 64, "--spill-curve"]),
            (["small.json", "1 layers of 4 experts", "loads.json"], 3, ["--slots", 64, "--loads", "small.json"]),
            (["small.json", "a variance of 1 layers of 4 experts"], 3, ["--slots", 64, "--variance", "small.json"]),
            (["--variance", "one load file"], 2,
             ["--slots", 64, "--variance", "small.json", "--loads", "small.json"]),
            (["--algorithm", "--effort"], 2, ["--slots", 64, "--algorithm", "deepseek", "--effort", "fast"]),
            (["--algorithm", "--loads"], 2, ["--slots", 64, "--algorithm", "trtllm", "--loads", "loads.json"]),
            (["--algorithm", "--split exact"], 2, ["--slots", 64, "--algorithm", "vllm", "--split", "exact"]),
            (["--algorithm", "group-spill"], 2, ["--slots", 64, "--algorithm", "vllm", "--locality", "group-spill=0.1"]),
            (["--algorithm", "--total-slots"], 2, ["--total-slots", 640, "--algorithm", "deepseek"]),
            (["--algorithm", "--spill-curve"], 2,
             ["--slots", 64, "--groups", 2, "--spill-curve", "--algorithm", "deepseek"]),
            (["missing.json"], 3, ["--slots", 64, "--variance", "missing.json"]),
            (["LOADS", "- twice"], 2, ["--slots", 64, "--loads", "-", "-"]),
        ):
            with self.subTest(arguments):
                self.fail_with(status, *plan, *arguments, says=says)
                self.assertNotIn("p.json", self.files())


if __name__ == "__main__":
    unittest.main()
