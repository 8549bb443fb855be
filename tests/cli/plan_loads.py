# SPDX-License-Identifier: Apache-2.0
"""`trimtab plan` on generated loads, and on recorded ones where there are any."""

import json
import unittest

from program import ProgramTest, recorded_loads, shipped_traces

EXPERTS, RANKS, NODES, SLOTS = 256, 32, 4, 288


def total_over_steps(path):
    counts = json.loads(path.read_text())["logical_count"]
    if not isinstance(counts[0][0], list):
        return counts
    return [[sum(column) for column in zip(*layers)] for layers in zip(*counts)]


def imbalance(loads, row, ranks):
    """Largest over mean rank load with even shares: written down once more, from the definition."""
    share = [load / row.count(expert) for expert, load in enumerate(loads)]
    width = len(row) // ranks
    rank_loads = [sum(share[e] for e in row[r * width:(r + 1) * width]) for r in range(ranks)]
    return max(rank_loads) * ranks / sum(rank_loads)


class Plan(ProgramTest):
    def generate(self, name="loads.json", *arguments):
        self.succeed("generate", "--layers", 8, "--dense-layers", 2, "--experts", EXPERTS, "--outliers", 2,
                     "-o", name, *arguments)
        return self.folder / name

    def plan(self, loads, *arguments):
        return self.succeed("plan", loads, "--ranks", RANKS, "--nodes", NODES, "--slots", SLOTS,
                            "-o", "placement.json", "--json", "plan.json", *arguments)

    def check_placement(self, rows):
        """What SGLang needs, what the design promises, checked without our code. Gives the map."""
        text = (self.folder / "placement.json").read_text()
        keys = []
        document = json.loads(text, object_pairs_hook=lambda pairs: keys.extend(k for k, _ in pairs) or dict(pairs))
        self.assertEqual(keys, ["physical_to_logical_map"])
        placement = document["physical_to_logical_map"]
        self.assertEqual(len(placement), len(rows))
        for layer, row in enumerate(placement):
            self.assertEqual(len(row), SLOTS)
            self.assertTrue(all(type(expert) is int for expert in row))
            self.assertEqual(set(row), set(range(EXPERTS)), layer)
            if not any(rows[layer]):
                self.assertEqual(row, [slot % EXPERTS for slot in range(SLOTS)])
                continue
            width = SLOTS // RANKS
            for first in range(0, SLOTS, width):
                self.assertEqual(len(set(row[first:first + width])), width, f"layer {layer}, slot {first}")
        return placement

    def check_document(self, rows, placement):
        document = self.read_json("plan.json")
        self.assertEqual(document["schema"], "trimtab.plan/1")
        layers = [layer for layer, row in enumerate(rows) if any(row)]
        self.assertEqual([entry["layer"] for entry in document["layers"]], layers)
        identity = [slot % EXPERTS for slot in range(SLOTS)]
        for entry in document["layers"]:
            row = rows[entry["layer"]]
            self.assertAlmostEqual(entry["imbalance"], imbalance(row, placement[entry["layer"]], RANKS), 9)
            self.assertAlmostEqual(entry["imbalance_before"], imbalance(row, identity, RANKS), 9)
            self.assertGreaterEqual(entry["imbalance"], entry["bound"] - 1e-12)
            self.assertGreaterEqual(entry["bound"], 1.0)
        self.check_summary(document)
        return document["summary"]

    def check_summary(self, document):
        summary, entries = document["summary"], document["layers"]
        self.assertEqual(summary["layers"], len(entries))
        for key in ("imbalance_before", "imbalance", "bound"):
            self.assertAlmostEqual(summary[key + "_mean"], sum(e[key] for e in entries) / len(entries), 9)
        self.assertEqual(summary["imbalance_worst"], max(e["imbalance"] for e in entries))
        self.assertEqual(summary["duplicates_on_rank"], 0)
        self.assertGreater(summary["plan_ms"], 0)

    def check_whole(self, loads):
        text = self.plan(loads)
        rows = total_over_steps(loads)
        summary = self.check_document(rows, self.check_placement(rows))
        self.assertIn(f"{summary['imbalance_before_mean']:.4f} -> {summary['imbalance_mean']:.4f}", text)
        self.assertLessEqual(summary["imbalance_mean"], 1.012)

    def test_generated_loads(self):
        self.check_whole(self.generate())

    def test_generated_steps(self):
        self.check_whole(self.generate("steps.json", "--steps", 3))

    def test_recorded_loads(self):
        files = recorded_loads("deepseek-v3_*.json")
        if not files:
            self.skipTest("TRIMTAB_LOADS_DIR names no recorded loads")
        for path in files:
            with self.subTest(path.name):
                self.check_whole(path)

    def test_same_bytes_on_any_number_of_threads(self):
        for loads in [self.generate(), *recorded_loads("deepseek-v3_*.json")[:2], *shipped_traces()]:
            seen = set()
            for threads in (1, 2, 7):
                self.plan(loads, "--threads", threads)
                layers = json.dumps(self.read_json("plan.json")["layers"])
                seen.add(((self.folder / "placement.json").read_bytes(), layers))
            self.assertEqual(len(seen), 1, loads)

    def test_json_on_standard_output_is_what_the_file_holds(self):
        loads = self.generate()
        self.plan(loads)
        done = self.trimtab("plan", loads, "--ranks", RANKS, "--nodes", NODES, "--slots", SLOTS, "-o", "second.json",
                            "--json", "-")
        self.assertEqual(done.returncode, 0)
        self.assertIn("imbalance", done.stderr)  # The talk makes room for the data.
        document, file = json.loads(done.stdout), self.read_json("plan.json")
        for each in (document, file):
            del each["summary"]["plan_ms"]
        self.assertEqual(document, file)

    def test_placement_on_standard_output(self):
        loads = self.generate()
        self.plan(loads)
        done = self.trimtab("plan", loads, "--ranks", RANKS, "--nodes", NODES, "--slots", SLOTS, "-o", "-")
        self.assertEqual(done.stdout, (self.folder / "placement.json").read_text())

    def test_loads_from_standard_input(self):
        loads = self.generate()
        self.plan(loads)
        from_file = (self.folder / "placement.json").read_bytes()
        self.succeed("plan", "-", "--ranks", RANKS, "--nodes", NODES, "--slots", SLOTS, "-o", "placement.json",
                     stdin=loads.read_text())
        self.assertEqual((self.folder / "placement.json").read_bytes(), from_file)

    def test_slots_per_rank_is_the_same_as_their_total(self):
        loads = self.generate()
        self.plan(loads)
        self.succeed("plan", loads, "--ranks", RANKS, "--nodes", NODES, "--slots-per-rank", SLOTS // RANKS,
                     "-o", "other.json")
        self.assertEqual((self.folder / "other.json").read_bytes(), (self.folder / "placement.json").read_bytes())

    def test_layers_outside_the_range_are_identity_and_not_listed(self):
        loads = self.generate()
        self.plan(loads)
        whole = self.read_json("placement.json")["physical_to_logical_map"]
        self.plan(loads, "--layers", "3:5")
        part = self.read_json("placement.json")["physical_to_logical_map"]
        identity = [slot % EXPERTS for slot in range(SLOTS)]
        for layer, row in enumerate(part):
            self.assertEqual(row, whole[layer] if layer in (3, 4) else identity)
        self.assertEqual([entry["layer"] for entry in self.read_json("plan.json")["layers"]], [3, 4])

    def test_groups_stay_inside_their_node(self):
        loads = self.generate()
        text = self.plan(loads, "--groups", 8)
        self.assertIn("group-strict", text)
        group, node = EXPERTS // 8, SLOTS // NODES
        for row in self.read_json("placement.json")["physical_to_logical_map"][2:]:
            homes = {}
            for slot, expert in enumerate(row):
                homes.setdefault(expert // group, set()).add(slot // node)
            self.assertTrue(all(len(nodes) == 1 for nodes in homes.values()))

    def test_loads_that_are_zero_give_the_identity(self):
        self.write("zero.json", '{"logical_count": [[0, 0, 0], [0.0, 0, 0]]}')
        text = self.succeed("plan", "zero.json", "--ranks", 2, "--slots", 4, "-o", "p.json", "--json", "plan.json")
        self.assertIn("no layer carries load", text)
        self.assertEqual(self.read_json("p.json"), {"physical_to_logical_map": [[0, 1, 2, 0], [0, 1, 2, 0]]})
        self.assertEqual(self.read_json("plan.json")["summary"]["layers"], 0)

    def test_vacant_slots_only_when_they_are_allowed(self):
        self.write("loads.json", '{"logical_count": [[5, 4]]}')
        arguments = ["plan", "loads.json", "--ranks", 1, "--slots", 4, "-o", "p.json", "--json", "plan.json"]
        self.succeed(*arguments)
        self.assertEqual(self.read_json("plan.json")["summary"]["duplicates_on_rank"], 2)
        self.succeed(*arguments, "--allow-vacant")
        self.assertEqual(self.read_json("plan.json")["summary"]["duplicates_on_rank"], 0)
        self.assertEqual(sorted(self.read_json("p.json")["physical_to_logical_map"][0]), [-1, -1, 0, 1])


if __name__ == "__main__":
    unittest.main()
