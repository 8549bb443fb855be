# SPDX-License-Identifier: Apache-2.0
"""Faults that users of other planners reported in public, where the command line must do better."""

import json
import unittest

from program import ProgramTest


class PlannerReports(ProgramTest):
    def write_loads(self, rows):
        self.write("loads.json", json.dumps({"logical_count": rows}))

    def write_placement(self, rows):
        self.write("placement.json", json.dumps({"physical_to_logical_map": rows}))

    def test_balancedness_is_taken_over_ranks_not_layers(self):
        """vllm-project/vllm#51813: 1.0 was printed for 100 and 200 on two ranks in both layers."""
        self.write_loads([[100, 200], [100, 200]])
        self.succeed("inspect", "loads.json", "--ranks", 2, "--slots", 2, "--json", "inspect.json")
        document = self.read_json("inspect.json")
        self.assertEqual(document["summary"]["balancedness_mean"], 0.75)
        self.assertEqual([entry["balancedness"] for entry in document["layers"]], [0.75, 0.75])

    def test_loads_by_step_are_summed(self):
        """sgl-project/sglang#7266: a recorder that keeps steps apart ended in an assertion."""
        self.write_loads([[[1, 0, 3], [0, 0, 0]], [[2, 5, 0], [0, 0, 0]]])
        self.succeed("plan", "loads.json", "--ranks", 2, "--slots", 4, "-o", "by-step.json")
        self.write_loads([[3, 5, 3], [0, 0, 0]])
        self.succeed("plan", "loads.json", "--ranks", 2, "--slots", 4, "-o", "summed.json")
        self.assertEqual(self.read_json("by-step.json"), self.read_json("summed.json"))

    def test_dense_rows_are_told_and_not_averaged(self):
        """sgl-project/sglang#25961: all-zero rows of dense layers were taken for loads."""
        self.write_loads([[0, 0, 0, 0], [9, 1, 1, 1], [0, 0, 0, 0]])
        self.succeed("plan", "loads.json", "--ranks", 2, "--slots", 6, "-o", "p.json", "--json", "plan.json")
        document = self.read_json("plan.json")
        self.assertEqual([entry["layer"] for entry in document["layers"]], [1])
        self.assertEqual(document["summary"]["imbalance_mean"], document["layers"][0]["imbalance"])

    def test_a_plan_from_a_file_is_checked(self):
        """vllm-project/vllm#41141, #26176, #49572, #53022, #31671: coverage, range and shape of offline plans.
        vllm-project/vllm-ascend#5311: an expert that does not exist."""
        self.write_loads([[1, 2, 3, 4], [1, 2, 3, 4]])
        arguments = ["inspect", "loads.json", "--placement", "placement.json", "--ranks", 2]
        whole = [0, 1, 2, 3, 0, 1]
        self.write_placement([whole, whole])
        self.succeed(*arguments)
        self.write_placement([whole, [0, 1, 2, 2, 0, 1]])
        self.fail_with(4, *arguments, says=["placement.json", "layer 1", "expert 3"])
        self.write_placement([whole, [0, 1, 2, 3, 0, 4]])
        self.fail_with(3, *arguments, says=["placement.json", "layer 1", "slot 5", "4"])
        self.write_placement([whole, whole[:5]])
        self.fail_with(3, *arguments, says=["placement.json", "layer 1", "5 slots"])

    def test_a_plan_with_a_layer_less_than_the_model_is_refused(self):
        """NVIDIA/TensorRT-LLM#13974: KeyError for the MTP layer that the offline map had not."""
        self.write_loads([[1, 2], [3, 4], [5, 6]])
        self.write_placement([[0, 1], [0, 1]])
        self.fail_with(3, "inspect", "loads.json", "--placement", "placement.json", "--ranks", 2,
                       says=["placement.json: 2 layers", "loads.json has 3"])

    def test_the_gain_is_told_before_anything_moves(self):
        """sgl-project/sglang#6017: no gain, and no way to know it beforehand."""
        self.write_loads([[5, 5, 5, 5]])
        text = self.succeed("plan", "loads.json", "--ranks", 2, "--slots", 4, "-o", "p.json")
        self.assertIn("1.0000 -> 1.0000", text)


if __name__ == "__main__":
    unittest.main()
