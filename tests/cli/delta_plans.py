# SPDX-License-Identifier: Apache-2.0
"""`trimtab plan --from` and `trimtab diff` on generated loads, and on recorded ones where there are any."""

import json
import unittest

from program import ProgramTest, recorded_loads, shipped_traces

EXPERTS, RANKS, NODES, SLOTS = 64, 8, 2, 72
WIDTH = SLOTS // RANKS
CLUSTER = ("--ranks", RANKS, "--nodes", NODES, "--slots", SLOTS)


def count_moves(old, new, width):
    """(same node, other node, local copies) of one layer: written down once more, from the definition."""
    holders = [set(old[r:r + width]) for r in range(0, len(old), width)]
    ranks_per_node = len(holders) // NODES
    near = far = local = 0
    for slot, (before, after) in enumerate(zip(old, new)):
        if before == after:
            continue
        rank = slot // width
        node = rank // ranks_per_node
        if after in holders[rank]:
            local += 1
        elif any(after in held for held in holders[node * ranks_per_node:(node + 1) * ranks_per_node]):
            near += 1
        else:
            far += 1
    return near, far, local


def imbalance(loads, row, ranks):
    share = [load / row.count(expert) for expert, load in enumerate(loads)]
    width = len(row) // ranks
    rank_loads = [sum(share[e] for e in row[r * width:(r + 1) * width]) for r in range(ranks)]
    return max(rank_loads) * ranks / sum(rank_loads)


class DeltaPlan(ProgramTest):
    def setUp(self):
        super().setUp()
        for name, seed in (("before.json", 1), ("after.json", 2)):
            self.succeed("generate", "--layers", 6, "--dense-layers", 1, "--experts", EXPERTS, "--seed", seed,
                         "-o", name)
        self.succeed("plan", "before.json", *CLUSTER, "-o", "old.json")

    def plan(self, *arguments):
        return self.succeed("plan", "after.json", *CLUSTER, "--from", "old.json", "-o", "new.json",
                            "--json", "plan.json", *arguments)

    def rows(self, name):
        return self.read_json(name)["physical_to_logical_map"]

    def check_counts(self, expert_bytes=None):
        """Every number of the document, from the placements alone."""
        document, near, far, moves = self.read_json("plan.json"), 0, 0, 0
        loads = self.read_json("after.json")["logical_count"]
        new = self.rows("new.json")
        for entry in document["layers"]:
            layer = entry["layer"]
            a, b, local = count_moves(self.rows("old.json")[layer], new[layer], WIDTH)
            self.assertEqual(entry["moves"], a + b)
            self.assertEqual((entry["local_copies"], local), (0, 0))
            self.assertLessEqual(entry["moves_bound"], entry["moves"])
            self.assertAlmostEqual(entry["imbalance"], imbalance(loads[layer], new[layer], RANKS), 9)
            self.assertAlmostEqual(entry["imbalance_from"],
                                   imbalance(loads[layer], self.rows("old.json")[layer], RANKS), 9)
            near, far, moves = near + a, far + b, moves + a + b
        self.assertEqual(new[0], self.rows("old.json")[0])  # The dense layer stays.
        summary = document["summary"]
        self.assertEqual(summary["moves"], moves)
        self.assertEqual(summary["moves_bound"], sum(e["moves_bound"] for e in document["layers"]))
        self.assertEqual(summary["bytes_intra_node"], expert_bytes and near * expert_bytes)
        self.assertEqual(summary["bytes_inter_node"], expert_bytes and far * expert_bytes)
        return document

    def test_as_even_as_a_full_replan(self):
        text = self.plan()
        document = self.check_counts()
        for entry in document["layers"]:
            self.assertLessEqual(entry["imbalance"], entry["imbalance_full"] + 1e-9)
        self.assertIn("moves", text)
        self.assertLess(document["summary"]["moves"], 5 * SLOTS * 0.6)

    def test_limits(self):
        self.plan("--max-moves", 5, "--expert-bytes", 1000)
        self.assertTrue(all(e["moves"] <= 5 for e in self.check_counts(1000)["layers"]))
        self.plan("--move-budget", 20000, "--expert-bytes", 1000)
        document = self.check_counts(1000)
        self.assertLessEqual(document["summary"]["moves"], 20)
        self.plan("--within", 0.05)
        for entry in self.check_counts()["layers"]:
            self.assertLessEqual(entry["imbalance"], 1.05 * entry["imbalance_full"] + 1e-9)

    def test_curve(self):
        text = self.plan("--curve")
        for entry in self.check_counts()["layers"]:
            points = [(p["moves"], p["imbalance"]) for p in entry["curve"]]
            self.assertEqual(points[0][0], 0)
            self.assertEqual(points, sorted(points))
            self.assertEqual([p[1] for p in points], sorted((p[1] for p in points), reverse=True))
            self.assertIn(entry["moves"], [p[0] for p in points])
        self.assertIn("moves per layer", text)
        self.plan()
        self.assertNotIn("curve", self.read_json("plan.json")["layers"][0])

    def test_nothing_to_gain_nothing_moved(self):
        self.plan()
        self.succeed("plan", "after.json", *CLUSTER, "--from", "new.json", "-o", "again.json")
        self.assertEqual(self.rows("again.json"), self.rows("new.json"))

    def test_same_bytes_on_any_number_of_threads(self):
        seen = set()
        for threads in (1, 2, 7):
            self.plan("--threads", threads, "--max-moves", 9, "--curve")
            seen.add(((self.folder / "new.json").read_bytes(), json.dumps(self.read_json("plan.json")["layers"])))
        self.assertEqual(len(seen), 1)

    def test_more_ranks(self):
        wider = ("--ranks", 12, "--nodes", NODES, "--slots", 108)
        self.fail_with(2, "plan", "after.json", *wider, "--from", "old.json", "-o", "new.json",
                       says=["--from-ranks", "old.json has 72 slots, the plan 108"])
        self.succeed("plan", "after.json", *wider, "--from", "old.json", "--from-ranks", RANKS, "-o", "new.json",
                     "--json", "plan.json")
        for entry in self.read_json("plan.json")["layers"]:
            self.assertEqual(entry["moves_required"], 36)
            self.assertLessEqual(entry["imbalance"], entry["imbalance_full"] + 1e-9)

    def test_groups_stay_together(self):
        self.plan("--groups", 4)
        for layer, row in enumerate(self.rows("new.json")):
            if layer == 0:
                continue
            for group in range(4):
                nodes = {slot // (SLOTS // NODES) for slot, e in enumerate(row) if e // 16 == group}
                self.assertEqual(len(nodes), 1)

    def test_errors(self):
        base = ("plan", "after.json", *CLUSTER, "-o", "new.json")
        self.fail_with(2, *base, "--max-moves", 3, says=["--max-moves requires --from"])
        self.fail_with(2, *base, "--from", "old.json", "--move-budget", 3,
                       says=["--move-budget requires --expert-bytes"])
        self.fail_with(2, *base, "--from", "old.json", "--within", "-1", says=["--within"])
        self.fail_with(2, *base, "--from", "old.json", "--json", "old.json", says=["names the file that is read"])
        self.fail_with(3, *base, "--from", "none.json", says=["none.json"])
        self.fail_with(4, "plan", "after.json", "--ranks", 9, "--slots", 81, "--from", "old.json", "--from-ranks", 8,
                       "--max-moves", 2, "-o", "new.json",
                       says=["old.json: layer 0: no placement is valid before 9 moves > 2 allowed"])
        self.write("few.json", json.dumps({"physical_to_logical_map": self.rows("old.json")[:2]}))
        self.fail_with(3, *base, "--from", "few.json", says=["few.json: 2 layers, but the loads have 6"])
        self.assertNotIn("new.json", self.files())

    def test_recorded_loads(self):
        files = [recorded_loads(f"deepseek-v3_{name}.json") for name in ("prefill_in1024", "decode_in1000out1000")]
        if not all(files):
            self.skipTest("TRIMTAB_LOADS_DIR names no recorded loads")
        (prefill,), (decode,) = files
        cluster = ("--ranks", 32, "--nodes", 4, "--slots", 288)
        self.succeed("plan", prefill, *cluster, "-o", "old.json")
        self.succeed("plan", decode, *cluster, "--from", "old.json", "--max-moves", 32, "-o", "new.json", "--json",
                     "plan.json")
        document = self.read_json("plan.json")
        self.assertTrue(all(entry["moves"] <= 32 for entry in document["layers"]))
        self.assertLessEqual(document["summary"]["imbalance_mean"], 1.03)


    def test_from_one_domain_to_another(self):
        """From the placement in use it gets nearly as even as a new plan, and some slots stay."""
        cluster = ("--ranks", 8, "--slots", 40)
        traces = shipped_traces()
        for before, after in zip(traces, traces[1:]):
            self.succeed("plan", before, *cluster, "-o", "old.json")
            self.succeed("plan", after, *cluster, "-o", "new.json", "--json", "new-plan.json")
            self.succeed("plan", after, *cluster, "--from", "old.json", "--within", 0.02, "-o", "delta.json", "--json",
                         "delta-plan.json")
            new, delta = (self.read_json(f"{name}-plan.json") for name in ("new", "delta"))
            self.assertLessEqual(delta["summary"]["imbalance_mean"], new["summary"]["imbalance_mean"] * 1.025)
            self.assertTrue(all(entry["moves"] < 40 for entry in delta["layers"]))


class Diff(ProgramTest):
    def placement(self, name, *rows):
        self.write(name, json.dumps({"physical_to_logical_map": rows}))

    def setUp(self):
        super().setUp()
        # Ranks 0 and 1 on one node, 2 and 3 on the other; two slots each.
        self.placement("old.json", [0, 1, 2, 3, 4, 5, 4, 5], [0, 1, 2, 3, 4, 5, 0, 1])
        self.placement("new.json", [1, 0, 2, 0, 4, 3, -1, 5], [0, 1, 2, 3, 4, 5, 0, 1])

    def test_document(self):
        self.succeed("diff", "old.json", "new.json", "--ranks", 4, "--nodes", 2, "--expert-bytes", 7, "--json",
                     "diff.json")
        document = self.read_json("diff.json")
        self.assertEqual(document["schema"], "trimtab.diff/1")
        counts = {"moves": 2, "intra_node": 1, "inter_node": 1, "from_source": 0, "local_copies": 2, "vacated": 1}
        first, second = document["layers"]
        self.assertEqual({key: first[key] for key in counts}, counts)
        self.assertEqual(first["changes"][2],
                         {"slot": 3, "from": 3, "to": 0, "kind": "intra_node", "is_move": True})
        self.assertEqual(first["changes"][4],
                         {"slot": 6, "from": 4, "to": None, "kind": "vacated", "is_move": False})
        self.assertEqual(second["changes"], [])
        summary = document["summary"]
        self.assertEqual((summary["bytes_intra_node"], summary["bytes_inter_node"], summary["bytes_copied"]),
                         (7, 7, 14))

    def test_text(self):
        text = self.succeed("diff", "old.json", "new.json", "--ranks", 4, "--nodes", 2, "--verbose", "--limit", 2)
        self.assertIn("2 of 16 slots move (12.5 %)", text)
        self.assertIn("slot 0: 0 -> 1 (local copy)", text)
        self.assertIn("and 3 more", text)
        self.assertNotIn("slot 3", text)

    def test_imbalance_under_a_load(self):
        self.write("loads.json", json.dumps({"logical_count": [[6, 2, 1, 1, 1, 1], [0] * 6]}))
        self.succeed("diff", "old.json", "new.json", "--ranks", 4, "--nodes", 2, "--loads", "loads.json", "--json",
                     "diff.json")
        document = self.read_json("diff.json")
        self.assertAlmostEqual(document["layers"][0]["imbalance_before"], 8 / 3)
        self.assertAlmostEqual(document["layers"][0]["imbalance_after"], 5 / 3)
        self.assertNotIn("imbalance_after", document["layers"][1])  # Without load there is nothing to compare.
        self.assertAlmostEqual(document["summary"]["imbalance_after_mean"], 5 / 3)

    def test_json_on_standard_output(self):
        done = self.succeed("diff", "old.json", "old.json", "--ranks", 4, "--json", "-")
        self.assertEqual(json.loads(done)["summary"]["moves"], 0)

    def test_errors(self):
        self.fail_with(2, "diff", "old.json", "new.json", says=["--ranks is required"])
        self.fail_with(2, "diff", "old.json", "new.json", "--ranks", 2, "--nodes", 3, says=["3 nodes > 2 ranks"])
        self.fail_with(2, "diff", "old.json", "new.json", "--ranks", 4, "--json", "new.json",
                       says=["names a file that is read"])
        self.placement("other.json", [0, 1, 2])
        self.fail_with(3, "diff", "old.json", "other.json", "--ranks", 3,
                       says=["old.json, other.json", "2 layers of 6 experts and 1 of 3"])
        self.fail_with(3, "diff", "old.json", "none.json", "--ranks", 4, says=["none.json"])


if __name__ == "__main__":
    unittest.main()
