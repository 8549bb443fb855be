# SPDX-License-Identifier: Apache-2.0
"""Traces: what `trimtab inspect` shows of them, and how the other verbs take them for loads."""

import json
import os
import pathlib
import subprocess
import threading
import unittest

from program import BINARY, ProgramTest
from traces import ROWS, drawn_trace, trace

ROOT = pathlib.Path(__file__).resolve().parents[2]


class TraceTest(ProgramTest):
    def setUp(self):
        super().setUp()
        for domain, first_hot in (("english", 0), ("chinese", 6), ("code", 20)):
            self.write(f"{domain}.trace", drawn_trace(domain, first_hot))

    def document(self, *arguments):
        return json.loads(self.succeed("inspect", *arguments, "--json", "-"))


class InspectTraces(TraceTest):
    def test_one_trace(self):
        document = self.document("english.trace")
        self.assertEqual((document["schema"], document["kind"], document["ranks"]), ("trimtab.inspect/1", "traces", 8))
        only = document["traces"][0]
        self.assertEqual((only["domain"], only["tokens"], only["prefill_tokens"], only["decode_tokens"],
                          only["requests"]), ("english", 600, 360, 240, 6))
        self.assertEqual([layer["layer"] for layer in only["layers"]], ROWS)
        self.assertEqual({layer["total"] for layer in only["layers"]}, {2400})
        self.assertGreater(only["summary"]["imbalance_mean"], 2)
        self.assertLess(1, only["noise_floor"])
        self.assertLess(only["noise_floor"], 1.2)

    def test_traces_beside_each_other(self):
        document = self.document("english.trace", "chinese.trace", "code.trace", "--slots", 40, "--plans")
        overlap = document["hot_overlap"]
        self.assertEqual([overlap[i][i] for i in range(3)], [1, 1, 1])
        self.assertEqual(overlap[0][1], overlap[1][0])
        self.assertGreater(overlap[0][1], overlap[0][2])
        cross = document["cross_imbalance"]
        for served in range(3):
            own = cross[served][served]
            self.assertTrue(all(cross[made_for][served] > own for made_for in range(3) if made_for != served), cross)

    def test_a_plan_of_plans_is_what_plan_makes(self):
        cross = self.document("english.trace", "code.trace", "--slots", 40, "--plans")["cross_imbalance"]
        self.succeed("plan", "english.trace", "--ranks", 8, "--slots", 40, "--groups", 8, "-o", "p.json")
        seen = self.document("english.trace", "code.trace", "--placement", "p.json")
        self.assertEqual(seen["placement"], "p.json")
        for served in range(2):
            self.assertAlmostEqual(seen["traces"][served]["summary"]["imbalance_mean"], cross[0][served], 9)

    def test_table(self):
        text = self.succeed("inspect", "english.trace", "chinese.trace", "code.trace", "--plans", "--top", 2)
        self.assertLessEqual(max(map(len, text.splitlines())), 100)
        self.assertTrue(text.startswith("3 traces of tiny: 5 layers (1 dense), 32 experts in 8 groups, top-4\n"))
        for line in ("imbalance by layer", "share of the 8 hottest experts in common", "made for"):
            self.assertIn("\n" + line, text)
        self.assertEqual(text, self.succeed("inspect", "english.trace", "chinese.trace", "code.trace", "--plans",
                                            "--top", 2, "--json", "out.json"))
        self.assertEqual(len(self.read_json("out.json")["traces"][2]["layers"]), 2)

    def test_one_phase(self):
        decode = self.document("english.trace", "--phase", "decode")["traces"][0]
        self.assertEqual((decode["tokens"], decode["prefill_tokens"]), (240, 0))
        self.assertEqual(decode["layers"][0]["total"], 960)


class TracesAsLoads(TraceTest):
    def setUp(self):
        super().setUp()
        self.succeed("inspect", "english.trace", "--write-loads", "english.json")
        self.succeed("inspect", "code.trace", "--write-loads", "code.json")

    def test_loads_hold_every_choice(self):
        choices = [[[0, 1], [2, 3]], [[1, 2], [2, 0]]]
        self.write("small.trace", trace("x", choices, [(0, 0, 0), (1, 0, 1)], [1, 3], experts=4, groups=1))
        self.succeed("inspect", "small.trace", "--ranks", 2, "--write-loads", "small.json")
        dense = [0, 0, 0, 0]
        self.assertEqual(self.read_json("small.json")["logical_count"],
                         [dense, [1, 2, 1, 0], dense, [1, 0, 2, 1], dense])

    def test_windows_are_steps(self):
        text = self.succeed("inspect", "english.trace", "--window", 250, "--write-loads", "-")
        steps = json.loads(text)["logical_count"]
        self.assertEqual([sum(step[1]) for step in steps], [1000, 1000, 400])
        whole = self.read_json("english.json")["logical_count"]
        self.assertEqual([[sum(loads) for loads in zip(*rows)] for rows in zip(*steps)], whole)

    def test_every_verb_sees_the_same_loads(self):
        cluster = ["--ranks", 8, "--slots", 40]
        for verb, extra in (("plan", ["-o", "placement.json"]), ("split", ["--placement", "p.json"])):
            documents = []
            self.succeed("plan", "english.json", *cluster, "-o", "p.json")
            for name in ("english.json", "english.trace"):
                self.succeed(verb, name, *cluster, *extra, "--json", "out.json")
                document = self.read_json("out.json")
                for measured in ("plan_ms", "solve_us_median"):
                    document["summary"].pop(measured, None)
                documents.append(document)
            self.assertEqual(documents[0], documents[1])
        diffs = [self.succeed("diff", "p.json", "p.json", "--ranks", 8, "--loads", name)
                 for name in ("english.json", "english.trace")]
        self.assertEqual(diffs[0], diffs[1])

    def test_traces_are_scenarios_and_phases(self):
        plans = []
        for kind in ("json", "trace"):
            self.succeed("plan", f"english.{kind}", "--loads", f"code.{kind}", "--ranks", 8, "--slots", 40, "-o", "p.json")
            plans.append(self.read_json("p.json"))
        self.assertEqual(plans[0], plans[1])
        self.succeed("run", "--loads", "english.trace", "code.trace", "--forwards", 16, "--hidden", 64,
                     "--intermediate", 32, "--tokens", 64, "--json", "run.json")
        self.assertTrue(self.read_json("run.json")["outputs_identical"])


class BadTraces(TraceTest):
    def test_bad_content_is_named(self):
        good = drawn_trace("english", 0)
        cases = {
            good[:-1]: ["bad.trace", "bytes behind the header"],
            trace("x", [[[0, 1, 2, 32]] * 4], [(0, 0, 0)]): ["bad.trace: token 0, layer 1: expert 32 is not in 0..31"],
            trace("x", [[[4, 5, 6, 5]] * 4], [(0, 0, 0)]): ["bad.trace: token 0, layer 1: expert 5 is chosen twice"],
            trace("x", [[[0, 1, 2, 3]] * 4], [(9, 0, 0)]): ["bad.trace: token 0: phase 9"],
            good.replace(b"trimtab.trace/1", b"trimtab.trace/2"): ["not a trace", "'trimtab.trace/2'", "trimtab.trace/1"],
        }
        for content, says in cases.items():
            with self.subTest(says):
                self.write("bad.trace", content)
                before = self.files()
                self.fail_with(3, "inspect", "bad.trace", "--write-loads", "l.json", "--json", "o.json", says=says)
                self.fail_with(3, "inspect", "english.trace", "bad.trace", "--json", "o.json", says=says)
                self.fail_with(3, "plan", "bad.trace", "--ranks", 8, "--slots", 40, "-o", "p.json", says=says)
                self.assertEqual(self.files(), before)

    def test_other_safetensors_are_no_traces(self):
        self.fail_with(3, "inspect", ROOT / "tests/golden/experts.safetensors", says=["not a trace", "'np'"])

    def test_traces_of_other_models(self):
        self.write("other.trace", trace("x", [[[0, 1]] * 4], [(0, 0, 0)], model="huge"))
        self.fail_with(3, "inspect", "english.trace", "other.trace",
                       says=["other.trace: model huge, ", "top-2, but english.trace is of model tiny, ", "top-4"])
        self.write("rows.trace", trace("x", [[[0, 1, 2, 3]] * 4], [(0, 0, 0)], [0, 1, 2, 3]))
        self.fail_with(3, "inspect", "english.trace", "rows.trace", says=["rows.trace: other layers with experts"])

    def test_a_phase_without_tokens(self):
        self.write("prompt.trace", trace("x", [[[0, 1, 2, 3]] * 4], [(0, 0, 0)]))
        self.fail_with(3, "inspect", "english.trace", "prompt.trace", "--phase", "decode",
                       says=["prompt.trace: none of its 1 tokens is of the phase decode"])

    def test_missing_files(self):
        self.fail_with(3, "inspect", "english.trace", "none.trace", says=["none.trace", "No such file"])

    def test_slots_for_some_experts_only(self):
        self.fail_with(4, "inspect", "english.trace", "--slots", 31, says=["31", "32"])

    def test_pipes(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        content = (self.folder / "english.trace").read_bytes()
        writer = threading.Thread(target=lambda: pipe.write_bytes(content), daemon=True)
        writer.start()
        self.fail_with(3, "plan", "pipe", "--ranks", 8, "--slots", 40, "-o", "p.json", says=["pipe: a trace can be read"])
        writer.join()
        done = subprocess.run([BINARY, "inspect", "-"], input=content, capture_output=True)
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"standard input: a trace can be read from a file only", done.stderr)

    def test_usage(self):
        self.write("loads.json", '{"logical_count": [[1, 2]]}')
        for option in (["--phase", "decode"], ["--window", 5], ["--write-loads", "x"], ["--plans"]):
            self.fail_with(2, "inspect", "loads.json", *option, says=[option[0], "applies to traces"])
        cases = [
            (["english.trace", "loads.json"], ["loads.json is none"]),
            (["english.trace", "--phase", "idle"], ["--phase", "idle"]),
            (["english.trace", "--window", 5], ["--window", "--write-loads"]),
            (["english.trace", "--window", 0, "--write-loads", "x"], ["--window"]),
            (["english.trace", "code.trace", "--write-loads", "x"], ["--write-loads", "one trace, not 2"]),
            (["english.trace", "--write-loads", "english.trace"], ["--write-loads", "that is read"]),
            (["english.trace", "--write-loads", "x", "--json", "x"], ["--json", "--write-loads"]),
            (["english.trace", "code.trace", "--json", "code.trace"], ["--json", "that is read"]),
        ]
        before = self.files()
        for arguments, says in cases:
            with self.subTest(arguments):
                self.fail_with(2, "inspect", *arguments, says=says)
        self.assertEqual(self.files(), before)


if __name__ == "__main__":
    unittest.main()
