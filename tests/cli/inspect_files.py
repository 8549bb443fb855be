# SPDX-License-Identifier: Apache-2.0
"""`trimtab inspect`: loads, placements, and both together."""

import json
import unittest

from program import ProgramTest, recorded_loads


class InspectLoads(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("loads.json", '{"logical_count": [[0, 0, 0, 0], [1, 2, 3, 6], [5, 5, 5, 5]]}')

    def document(self, *arguments):
        return json.loads(self.succeed("inspect", *arguments, "--json", "-"))

    def test_numbers_of_a_layer(self):
        document = self.document("loads.json")
        self.assertEqual(document["schema"], "trimtab.inspect/1")
        self.assertEqual(document["kind"], "loads")
        self.assertEqual(document["dense_layers"], [0])
        self.assertEqual(document["layers"][0], {"layer": 1, "total": 12, "mean": 3, "max": 6, "max_over_mean": 2,
                                                 "hottest_expert": 3})

    def test_three_spellings_of_imbalance(self):
        entry = self.document("loads.json", "--ranks", 2)["layers"][0]  # rank loads 3 and 9
        self.assertEqual(entry["imbalance"], 1.5)
        self.assertAlmostEqual(entry["balancedness"], 2 / 3)
        self.assertEqual(entry["excess"], 0.5)

    def test_redundant_slots_share_evenly(self):
        entry = self.document("loads.json", "--ranks", 2, "--slots", 6)["layers"][0]  # 0.5+1+3 and 6+0.5+1
        self.assertEqual(entry["imbalance"], 7.5 / 6)

    def test_placement_in_place_of_the_identity(self):
        self.write("placement.json", '{"physical_to_logical_map": [[0,1,2,3], [0,3,1,2], [0,1,2,3]]}')
        entry = self.document("loads.json", "--placement", "placement.json", "--ranks", 2)["layers"][0]  # 7 and 5
        self.assertAlmostEqual(entry["imbalance"], 7 / 6)

    def test_top_lists_the_worst_first(self):
        self.write("more.json", '{"logical_count": [[1, 1], [1, 3], [1, 9]]}')
        layers = self.document("more.json", "--top", 2)["layers"]
        self.assertEqual([entry["layer"] for entry in layers], [2, 1])

    def test_table_is_aligned_and_ends_with_average_and_worst(self):
        lines = self.succeed("inspect", "loads.json", "--ranks", 2).splitlines()
        self.assertIn("3 layers (1 dense), 4 experts, 1 step", lines[0])
        table = lines[1:-1]
        self.assertTrue(table[-2].startswith("average "))
        self.assertTrue(table[-1].startswith("worst (1) "))
        self.assertEqual(len({len(line) for line in table}), 1, table)
        self.assertIn("max/mean", lines[-1])

    def test_json_file_holds_what_json_on_standard_output_says(self):
        text = self.succeed("inspect", "loads.json", "--json", "out.json")
        self.assertIn("average", text)
        self.assertEqual(self.read_json("out.json"), self.document("loads.json"))

    def test_zero_loads(self):
        self.write("zero.json", '{"logical_count": [[0, 0]]}')
        self.assertIn("no layer carries load", self.succeed("inspect", "zero.json", "--ranks", 2))
        self.assertEqual(self.document("zero.json")["summary"], {"layers": 0})

    def test_recorded_loads(self):
        for path in recorded_loads("deepseek-v3_*.json"):
            document = self.document(path, "--ranks", 32, "--nodes", 4, "--slots", 288)
            self.assertEqual(document["dense_layers"], [0, 1, 2])
            self.assertEqual(document["summary"]["layers"], 58)


class InspectPlacement(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("placement.json", '{"physical_to_logical_map": [[0, 1, 2, 2], [2, 1, 0, -1]]}')

    def test_numbers_of_a_layer(self):
        document = json.loads(self.succeed("inspect", "placement.json", "--json", "-"))
        self.assertEqual(document["kind"], "placement")
        self.assertEqual(document["layers"][0], {"layer": 0, "vacant": 0, "replicated_experts": 1, "max_replicas": 2,
                                                 "most_replicated_expert": 2})
        self.assertEqual(document["layers"][1]["vacant"], 1)

    def test_duplicates_need_ranks(self):
        document = json.loads(self.succeed("inspect", "placement.json", "--ranks", 2, "--json", "-"))
        self.assertEqual([entry["duplicates_on_rank"] for entry in document["layers"]], [1, 0])

    def test_loads_only_options(self):
        self.fail_with(2, "inspect", "placement.json", "--top", 1, says=["--top"])
        self.fail_with(2, "inspect", "placement.json", "--ranks", 2, "--slots", 5, says=["5 slots", "4"])


class RoundTrip(ProgramTest):
    def test_generate_plan_inspect(self):
        self.succeed("generate", "--layers", 4, "--experts", 64, "-o", "loads.json")
        self.succeed("plan", "loads.json", "--ranks", 8, "--slots", 80, "-o", "p.json", "--json", "plan.json")
        text = self.succeed("inspect", "loads.json", "--placement", "p.json", "--ranks", 8, "--json", "-")
        planned, seen = self.read_json("plan.json"), json.loads(text)
        for before, after in zip(planned["layers"], seen["layers"], strict=True):
            self.assertAlmostEqual(before["imbalance"], after["imbalance"], 9)
        self.assertAlmostEqual(planned["summary"]["imbalance_mean"], seen["summary"]["imbalance_mean"], 9)


if __name__ == "__main__":
    unittest.main()
