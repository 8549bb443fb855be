# SPDX-License-Identifier: Apache-2.0
"""`trimtab run --model`: text served by a language model, on every transport, while its experts move."""

import json
import os
import unittest

from small_model import write_small_model
from text_runs import TextRunTest

MPIEXEC = os.environ.get("TRIMTAB_MPIEXEC", "").split()  # Empty where it was built without MPI.
SHORT = ("--model", "m", "--prompt-bytes", 20, "--new-bytes", 8, "--tokens", 40, "--forwards", 32,
         "--rebalance-every", 2)


class RunText(TextRunTest):
    def setUp(self):
        super().setUp()
        write_small_model(self.folder / "m")
        prompts = self.folder / "m" / "prompts"
        prompts.mkdir()
        for name, word in (("digits", "0123456789 "), ("letters", "the quick brown fox ")):
            (prompts / f"{name}.txt").write_text(word * 50, encoding="ascii")

    def refuse(self, status, why, *arguments):
        self.fail_with(status, *arguments, says=(why,))

    def check(self, document):
        self.check_arms(document, ["digits", "letters"])
        text = document["text"]
        for sample in text["samples"]:
            self.assertEqual(len(sample["prompt"]), 20)
            self.assertGreater(len(sample["said"]), 0)
        bits = [[block["bits_per_byte"] for block in document["blocks"] if block["balancing"] is arm]
                for arm in (False, True)]
        self.assertEqual(*bits)
        rows = sum(block["tokens"] for block in document["blocks"] if not block["balancing"])
        self.assertEqual(text["prefilled"] + text["decoded"], rows)

    def test_prompts_of_the_model(self):
        document, said = self.serve(*SHORT, "--ranks", 2)
        self.check(document)
        self.assertEqual(document["model"], {"layers": 2, "experts": 8, "top_k": 2, "groups": 4, "top_groups": 2,
                                             "hidden": 32, "intermediate": 16, "seed": None})
        self.assertRegex(said, r"(?m)^text       \d+\.\d{4} bits per byte of prompts; each arm read \d+ bytes")
        self.assertRegex(said, r"(?m)^outputs    identical: off, on and the reference \(8 requests\)")

    def test_the_same_text_by_replay(self):
        replayed, plain = (self.serve(*SHORT, "--ranks", 2, *how)[0] for how in (("--graph-replay",), ()))
        self.check(replayed)
        self.assertEqual(replayed["replay"]["replays"], 2 * 2 * replayed["forwards"])
        self.assertEqual(replayed["text"]["bits_per_byte"], plain["text"]["bits_per_byte"])

    def test_processes_as_ranks(self):
        self.check(self.serve(*SHORT, "--ranks", 2, "--transport", "ucx")[0])

    @unittest.skipUnless(MPIEXEC, "built without MPI")
    def test_mpi_processes_as_ranks(self):
        self.check(self.serve(*SHORT, "--transport", "mpi", launcher=[*MPIEXEC, "-n", "2"])[0])

    def test_the_same_text_on_any_number_of_ranks(self):
        """Rank 0 is asked the same on each."""
        one, two = (self.serve(*SHORT, "--ranks", ranks)[0]["text"]["samples"] for ranks in (2, 4))
        self.assertEqual(one, two)

    def test_drawn_bytes(self):
        drawn = [self.serve(*SHORT, "--ranks", 2, "--temperature", 1, "--seed", seed)[0] for seed in (1, 1, 2)]
        self.check(drawn[0])
        said = [[sample["said"] for sample in document["text"]["samples"]] for document in drawn]
        self.assertEqual(said[0], said[1])
        self.assertNotEqual(said[0], said[2])

    def test_texts_that_are_named(self):
        (self.folder / "a.txt").write_bytes(b"\xe4\xb8\xad\xe6\x96\x87" * 30)
        document, _ = self.serve(*SHORT, "--ranks", 2, "--text", "a.txt")
        self.assertEqual([domain["name"] for domain in document["text"]["domains"]], ["a"])

    def test_traces_of_domains(self):
        for transport in ("inproc", "ucx"):
            text = self.serve(*SHORT, "--ranks", 2, "--transport", transport, "--record", f"{transport}/deep")[0]["text"]
            traces = [self.folder / transport / "deep" / f"{name}.trace" for name in ("digits", "letters")]
            shown = json.loads(self.succeed("inspect", *traces, "--ranks", 2, "--json", "-"))
            tokens = sum(trace["tokens"] for trace in shown["traces"])
            self.assertEqual(tokens, text["prefilled"] + text["decoded"])
            self.assertEqual([trace["domain"] for trace in shown["traces"]], ["digits", "letters"])
            loads = json.loads(self.succeed("inspect", traces[0], "--write-loads", "-"))["logical_count"]
            self.assertEqual(sum(loads[0]), 0)  # The dense layer.
            self.assertEqual([sum(row) for row in loads[1:]], [2 * shown["traces"][0]["tokens"]] * 2)

    def test_a_trace_takes_any_name_a_text_has(self):
        for name in ("a b.txt", "a-b.txt", ".txt"):
            (self.folder / name).write_text("x y z " * 20, encoding="ascii")
        self.serve(*SHORT, "--ranks", 2, "--record", "r", "--text", "a b.txt", "a-b.txt", ".txt")
        self.assertEqual(sorted(path.name for path in (self.folder / "r").iterdir()),
                         ["a-b-2.trace", "a-b.trace", "text.txt.trace"])

    def test_what_cannot_be_recorded(self):
        self.write("taken", "a file")
        done = self.trimtab("run", *SHORT, "--ranks", 2, "--record", "taken")
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("trimtab run: taken: ", done.stderr)
        self.serve(*SHORT, "--ranks", 2, "--record", "r", "--mutant", "wrong-scale", status=1)
        self.assertFalse((self.folder / "r").exists())

    def test_mutants_change_what_is_said(self):
        for mutant in ("wrong-scale", "table-before-weights"):
            document, said = self.serve(*SHORT, "--ranks", 2, "--mutant", mutant, status=1)
            bits = document["text"]["bits_per_byte"]
            self.assertNotEqual(bits["off"], bits["on"], mutant)
            self.assertRegex(said, r"(?m)^text       \d+\.\d{4} off, \d+\.\d{4} on bits per byte of prompts")

    def test_texts_that_do_not_fit(self):
        (self.folder / "short.txt").write_text("x" * 19, encoding="ascii")
        self.refuse(3, "short.txt: 19 bytes < 20, the length of a prompt", "run", *SHORT, "--text", "short.txt")
        (self.folder / "zero.txt").write_bytes(b"x" * 40 + b"\0")
        self.refuse(3, "zero.txt: byte 40 is 0, which begins every text", "run", *SHORT, "--text", "zero.txt")
        self.refuse(3, "absent.txt: cannot be opened", "run", *SHORT, "--text", "absent.txt")
        self.refuse(3, "20 bytes of prompt and 45 to be said > 64, the model's context", "run", *SHORT[:4],
                       "--new-bytes", 45)

    def test_models_that_do_not_fit(self):
        path = self.folder / "m" / "model.safetensors"
        self.refuse(3, "nowhere/model.safetensors: ", "run", "--model", "nowhere")
        path.write_bytes(path.read_bytes()[:-1])
        self.refuse(3, "m/model.safetensors: ", "run", *SHORT)
        write_small_model(self.folder / "m", {"heads": 3})
        self.refuse(3, "m/model.safetensors: width 32 is no multiple of 6, twice the heads", "run", *SHORT)
        write_small_model(self.folder / "bare")
        self.refuse(3, "bare/prompts: no text to take prompts from, and none is named by --text", "run", "--model",
                       "bare")

    def test_options_that_do_not_go_together(self):
        for option in (("--hidden", 64), ("--top-k", 2), ("--groups", 2), ("--loads", "x.json")):
            self.refuse(2, option[0], "run", *SHORT, *option)
        for option in (("--text", "a.txt"), ("--prompt-bytes", 5), ("--new-bytes", 5), ("--temperature", 1), ("--record", "r")):
            self.refuse(2, "--model", "run", *option)
        self.refuse(2, "kill does not go with --model", "run", *SHORT, "--inject-fault", "kill:1")
        self.refuse(2, "--checkpoint: does not go with --model", "run", *SHORT, "--checkpoint", "c")


if __name__ == "__main__":
    unittest.main()
