# SPDX-License-Identifier: Apache-2.0
"""Bad input ends with the right exit status and one line that names it, and leaves every output as it was."""

import os
import unittest

from program import ProgramTest

# name: content of the file, what the line must say besides the file's name
BAD_LOADS = {
    "empty": (b"", ["empty file"]),
    "white_space": (b" \n ", ["not JSON"]),
    "not_json": (b"layer,expert\n0,1\n", ["not a JSON object", "'layer,expert?0,1?'"]),
    "binary": (bytes(range(256)), ["not a JSON object"]),
    "latin_1": (b'{"logical_count": [[1, 2]], "by": "M\xfcller"}', ["not valid UTF-8"]),
    "zip_archive": (b"PK\x03\x04 torch.save writes these", ["not a JSON object", "'PK"]),
    "bare_list": (b"[[1, 2]]", ["not a JSON object", '"logical_count"']),
    "truncated": (b'{"logical_count": [[1, 2], [3, 4', ["truncated JSON", "32 bytes", "layer 1, entry 1"]),
    "truncated_step": (b'{"logical_count": [[[1, 2]], [[3', ["truncated JSON", "step 1, layer 0, entry 0"]),
    "text_behind": (b'{"logical_count": [[1, 2]]} x', ["byte 28", "'x'"]),
    "missing_key": (b'{"physical_count": [[1, 2]]}', ['no key "logical_count"', "'physical_count'"]),
    "key_twice": (b'{"logical_count": [[1]], "logical_count": [[1]]}', ["twice"]),
    "nan": (b'{"logical_count": [[1, 2], [3, NaN]]}', ["layer 1, expert 1", "'NaN'"]),
    "infinity": (b'{"logical_count": [[Infinity, 2]]}', ["layer 0, expert 0", "'Infinity'"]),
    "minus_infinity": (b'{"logical_count": [[1, -Infinity]]}', ["layer 0, expert 1", "'-Infinity'"]),
    "too_large": (b'{"logical_count": [[1, 1e999]]}', ["layer 0, expert 1", "'1e999'"]),
    "negative": (b'{"logical_count": [[1, 2], [-3, 4]]}', ["layer 1, expert 0", "-3", ">= 0"]),
    "negative_in_step": (b'{"logical_count": [[[1]], [[-3]]]}', ["step 1, layer 0, expert 0", "-3"]),
    "string": (b'{"logical_count": [[1, "2"]]}', ["layer 0, expert 1", '\'"2"\'']),
    "null": (b'{"logical_count": [[null, 2]]}', ["layer 0, expert 0", "'null'"]),
    "ragged": (b'{"logical_count": [[1, 2, 3], [4, 5]]}', ["layer 1", "2 experts", "3"]),
    "ragged_steps": (b'{"logical_count": [[[1], [2]], [[3]]]}', ["step 1", "1 layers", "2"]),
    "one_axis": (b'{"logical_count": [1, 2]}', ["layer 0", "'1'", "[layers][experts]"]),
    "four_axes": (b'{"logical_count": [[[[1]]]]}', ["step 0, layer 0, expert 0", "a list"]),
    "no_layers": (b'{"logical_count": []}', ["empty list"]),
    "no_experts": (b'{"logical_count": [[]]}', ["layer 0", "empty list"]),
    "sum_over_steps": (b'{"logical_count": [[[1e308]], [[1e308]]]}', ["step 1, layer 0, expert 0", "1e+308", "inf"]),
    "sum_over_experts": (b'{"logical_count": [[1e308, 1e308]]}', ["layer 0", "inf"]),
}

PLAN = ["--ranks", 2, "--slots", 4, "-o", "placement.json", "--json", "plan.json"]


class BadLoads(ProgramTest):
    def check(self, says, *arguments, status=3):
        """With the outputs absent, and again with outputs that were there before."""
        before = self.files()
        self.fail_with(status, *arguments, says=says)
        self.assertEqual(self.files(), before)
        self.write("placement.json", "old placement")
        self.write("plan.json", "old plan")
        self.fail_with(status, *arguments, says=says)
        self.assertEqual((self.folder / "placement.json").read_text(), "old placement")
        self.assertEqual((self.folder / "plan.json").read_text(), "old plan")
        for name in ("placement.json", "plan.json"):
            (self.folder / name).unlink()
        self.assertEqual(self.files(), before)

    def test_content(self):
        for name, (content, says) in BAD_LOADS.items():
            with self.subTest(name):
                self.write("loads.json", content)
                self.check(["trimtab plan: ", "loads.json: ", *says], "plan", "loads.json", *PLAN)
                self.fail_with(3, "inspect", "loads.json", says=["trimtab inspect: ", "loads.json: ", *says])

    def test_missing_file(self):
        self.check(["none.json", "No such file"], "plan", "none.json", *PLAN)

    def test_folder(self):
        (self.folder / "folder").mkdir()
        self.check(["folder", "Is a directory"], "plan", "folder", *PLAN)

    def test_unreadable_file(self):
        self.write("loads.json", '{"logical_count": [[1, 2]]}').chmod(0)
        self.folder.chmod(0o755)
        self.user = 65534 if os.geteuid() == 0 else None  # Root may read every file.
        self.fail_with(3, "inspect", "loads.json", says=["loads.json", "Permission denied"])

    def test_name_with_a_line_break_stays_one_line(self):
        self.fail_with(3, "inspect", "a\nb.json", says=["a b.json"])

    def test_more_experts_than_slots(self):
        self.write("loads.json", '{"logical_count": [[1, 2, 3, 4, 5]]}')
        self.check(["loads.json", "4", "5 experts"], "plan", "loads.json", *PLAN, status=4)

    def test_more_experts_than_slots_for_inspect(self):
        self.write("loads.json", '{"logical_count": [[1, 2, 3, 4, 5]]}')
        self.fail_with(4, "inspect", "loads.json", "--ranks", 2, "--slots", 4, says=["4 slots", "5 experts"])


class BadPlacement(ProgramTest):
    def check(self, rows, says):
        self.write("placement.json", '{"physical_to_logical_map": %s}' % rows)
        return self.fail_with(3, "inspect", "placement.json", says=["placement.json: ", *says])

    def test_content(self):
        self.check("[[0, 1], [0]]", ["layer 1", "1 slots", "2"])
        self.check("[[0, 1.5]]", ["layer 0, slot 1", "'1.5'"])
        self.check("[[0, -2]]", ["layer 0, slot 1", "'-2'"])
        self.check("[]", ["empty list"])

    def test_expert_without_slot(self):
        self.write("placement.json", '{"physical_to_logical_map": [[0, 1, 2], [0, 2, 2]]}')
        self.fail_with(4, "inspect", "placement.json", says=["layer 1", "expert 1 has no slot"])

    def test_layers_that_differ_from_the_loads(self):
        self.write("loads.json", '{"logical_count": [[1, 2], [3, 4]]}')
        self.write("placement.json", '{"physical_to_logical_map": [[0, 1]]}')
        self.fail_with(3, "inspect", "loads.json", "--placement", "placement.json", "--ranks", 2,
                       says=["placement.json: 1 layers", "loads.json has 2"])


class Usage(ProgramTest):
    def check(self, *arguments, says=()):
        before = self.files()
        self.fail_with(2, *arguments, says=[*says, "--help)"])
        self.assertEqual(self.files(), before)

    def setUp(self):
        super().setUp()
        self.write("loads.json", '{"logical_count": [[1, 2], [3, 4]]}')

    def plan(self, *arguments, says=()):
        self.check("plan", "loads.json", "-o", "p.json", *arguments, says=says)

    def test_unknown_things(self):
        self.plan("--ranks", 2, "--slots", 4, "--frobnicate", says=["--frobnicate"])
        self.check("frobnicate", says=["frobnicate"])
        self.check("--frobnicate", says=["--frobnicate"])
        self.check("inspect", "loads.json", "--frobnicate", says=["--frobnicate"])
        self.check("generate", "-o", "x.json", "--frobnicate", says=["--frobnicate"])

    def test_missing_things(self):
        self.check(says=["a verb is required"])
        self.check("plan", says=["--loads"])
        self.check("plan", "loads.json", "--ranks", 2, "--slots", 4, says=["--output", "required"])
        self.plan("--slots", 4, says=["--ranks"])
        self.plan("--ranks", 2, says=["--slots"])
        self.check("inspect", "loads.json", "--slots", 4, says=["--ranks"])

    def test_values_out_of_range(self):
        self.plan("--ranks", 0, "--slots", 4, says=["--ranks", "0"])
        self.plan("--ranks", "two", "--slots", 4, says=["--ranks", "two"])
        self.plan("--ranks", 2, "--slots", 4.5, says=["--slots", "4.5"])
        self.plan("--ranks", 2, "--slots", 99999999999999, says=["--slots"])
        self.plan("--ranks", 60000, "--slots-per-rank", 60000, says=["3600000000"])
        self.plan("--ranks", 2, "--slots", 4, "--nodes", 3, says=["3 nodes > 2 ranks"])
        self.plan("--ranks", 2, "--slots", 4, "--groups", 3, says=["3 groups", "2 experts"])
        self.plan("--ranks", 2, "--nodes", 2, "--slots", 4, "--locality", "group-strict", says=["2 nodes, 1 groups"])
        self.plan("--ranks", 2, "--slots", 4, "--locality", "nearby", says=["--locality", "nearby"])
        self.plan("--ranks", 2, "--slots", 4, "--threads", 0, says=["--threads", "0"])

    def test_layers(self):
        for value in ("1", "a:b", "1:", ":1", "1:2:3", "1:1", "2:1", "0:3", "-1:2"):
            with self.subTest(value):
                self.plan("--ranks", 2, "--slots", 4, "--layers=" + value, says=["--layers"])

    def test_options_that_contradict_each_other(self):
        self.plan("--ranks", 2, "--slots", 4, "--slots-per-rank", 2, says=["--slots"])
        self.plan("--ranks", 2, "--slots", 4, "--json", "p.json", says=["--json", "same file"])
        self.plan("--ranks", 2, "--slots", 4, "--json", "./p.json", says=["--json", "same file"])
        self.check("plan", "loads.json", "--ranks", 2, "--slots", 4, "-o", "-", "--json", "-", says=["same file"])

    def test_an_output_never_replaces_the_input(self):
        content = (self.folder / "loads.json").read_text()
        self.check("plan", "loads.json", "--ranks", 2, "--slots", 4, "-o", "loads.json", says=["is read"])
        os.symlink("loads.json", self.folder / "link.json")
        self.plan("--ranks", 2, "--slots", 4, "--json", "link.json", says=["is read"])
        self.check("inspect", "loads.json", "--json", "loads.json", says=["is read"])
        self.assertEqual((self.folder / "loads.json").read_text(), content)

    def test_generate(self):
        for option, value in (("layers", 0), ("experts", -1), ("sigma", 9), ("sigma", "nan"), ("exponent", -1),
                              ("drift", 1.5), ("top-k", 65), ("tokens", 0), ("steps", 0), ("outliers", 65),
                              ("dense-layers", 9), ("distribution", "normal"), ("seed", -1), ("experts", 1 << 30)):
            with self.subTest(f"{option} {value}"):
                self.check("generate", "-o", "x.json", f"--{option}={value}", says=[option.split("-")[0]])


class Outputs(ProgramTest):
    def setUp(self):
        super().setUp()
        self.write("loads.json", '{"logical_count": [[1, 2], [3, 4]]}')

    def test_one_that_cannot_be_written_keeps_the_other_from_appearing(self):
        arguments = ["plan", "loads.json", "--ranks", 2, "--slots", 4]
        self.fail_with(3, *arguments, "-o", "p.json", "--json", "none/plan.json", says=["none/plan.json"])
        self.fail_with(3, *arguments, "-o", "none/p.json", "--json", "plan.json", says=["none/p.json"])
        self.fail_with(3, *arguments, "-o", ".", "--json", "plan.json", says=["Is a directory"])
        self.assertEqual(self.files(), ["loads.json"])

    def test_full_device(self):
        self.fail_with(3, "generate", "-o", "/dev/full", says=["/dev/full", "No space left"])


if __name__ == "__main__":
    unittest.main()
