# SPDX-License-Identifier: Apache-2.0
"""`trimtab run`: the live service, with threads and with MPI processes as ranks, on generated and on recorded loads."""

import json
import os
import re
import subprocess
import unittest

from program import BINARY, ProgramTest, recorded_loads

MPIEXEC = os.environ.get("TRIMTAB_MPIEXEC", "").split()  # Empty where it was built without MPI.
SMALL = ("--forwards", 16, "--tokens", 64, "--hidden", 64, "--intermediate", 32, "--rebalance-every", 2)


class Run(ProgramTest):
    def check(self, document, transport, ranks, rolled_back=0):
        """What every run with sound outputs says, whatever it served."""
        self.assertEqual(document["schema"], "trimtab.run/1")
        self.assertEqual((document["transport"], document["ranks"]), (transport, ranks))
        self.assertIs(document["outputs_identical"], True)
        self.assertGreater(document["reference_checked"], 0)
        self.assertGreater(document["migrations"], 0)
        self.assertGreaterEqual(document["epochs"], document["migrations"])
        self.assertGreater(document["slots_moved"], 0)
        self.assertGreater(document["bytes_moved"], 0)
        self.assertGreater(document["tokens_on_moved_slots"], 0)
        self.assertEqual(document["unchanged_slots_written"], 0)
        self.assertEqual(document["rolled_back"], rolled_back, document["last_problem"])
        self.assertEqual(len(document["rollbacks"]), rolled_back)
        engine, memory = document["engine"], document["memory"]
        self.assertEqual((engine["state"], engine["epoch"]), ("idle", document["epochs"]))
        self.assertEqual((engine["failures"], engine["last_failure"] == ""), (rolled_back, rolled_back == 0))
        self.assertGreaterEqual(engine["last_commit_age_ms"], 0)
        self.assertGreater(memory["staging_peak_bytes"], 0)
        self.assertLessEqual(memory["staging_peak_bytes"], memory["staging_budget_bytes"])
        self.assertEqual(memory["workspace_bytes"] > 0, document["layout"] == "nz")
        self.assertEqual(memory["transport_buffer_bytes"], 0)  # Neither back-end has any of its own.
        self.assertEqual(document["windows_refused"], 0)
        self.check_traffic(document)
        self.assertEqual(set(document["time_ms"]) & {"record", "plan", "migrate"}, {"record", "plan", "migrate"})
        self.assertLess(document["on"]["imbalance_mean"], document["off"]["imbalance_mean"])
        for arm in ("off", "on"):
            self.assertGreater(document[arm]["tokens_per_s"], 0)
        self.assertGreaterEqual(document["quads"], 8)
        self.assertLessEqual(document["speedup_low"], document["speedup"])
        self.assertLessEqual(document["speedup"], document["speedup_high"])
        self.assertEqual(len(document["blocks"]), 4 * document["quads"])

    def check_traffic(self, document):
        forward, migration = document["traffic"]["forward"], document["traffic"]["migration"]
        self.assertGreater(forward["bytes_within_nodes"], 0)
        for traffic in (forward, migration):
            self.assertEqual(traffic["bytes_between_nodes"] > 0, document["nodes"] > 1)
        # Control messages come on top, and steps that were rolled back.
        self.assertGreater(migration["bytes_within_nodes"] + migration["bytes_between_nodes"], document["bytes_moved"])

    def serve(self, *arguments, status=0):
        return self.serve_telling(*arguments, status=status)[0]

    def serve_telling(self, *arguments, status=0):
        """The document, and the summary, which goes to standard error when the document takes the output."""
        done = subprocess.run(self.command(*arguments), cwd=self.folder, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout), done.stderr

    def command(self, *arguments):
        return [BINARY, "run", *map(str, arguments), "--json", "-"]

    def test_threads_as_ranks(self):
        self.check(self.serve(*SMALL, "--ranks", 2), "inproc", 2)

    def test_more_ranks_than_cores(self):
        self.check(self.serve(*SMALL, "--ranks", 5, "--nodes", 2), "inproc", 5)

    def test_group_limited_routing(self):
        self.succeed("generate", "--layers", 3, "--dense-layers", 1, "--experts", 64, "--outliers", 3, "-o", "a.json")
        document = self.serve(*SMALL, "--ranks", 2, "--loads", "a.json", "--groups", 8, "--top-groups", 4)
        self.check(document, "inproc", 2)
        self.assertEqual((document["model"]["layers"], document["model"]["top_groups"]), (2, 4))

    def test_exact_shares(self):
        document = self.serve(*SMALL, "--ranks", 3, "--split", "exact")
        self.check(document, "inproc", 3)
        self.assertEqual(document["split"], "exact")
        self.assertEqual(document["splits"], 16)  # One after each forward.

    def test_shares_alone_move_nothing(self):
        document = self.serve("--forwards", 16, "--tokens", 64, "--hidden", 64, "--intermediate", 32, "--ranks", 4,
                              "--slots-per-rank", 12, "--rebalance-every", 1000, "--split", "exact", "--split-every", 2)
        self.assertIs(document["outputs_identical"], True)
        self.assertEqual(document["splits"], 8)
        self.assertEqual([document[key] for key in ("migrations", "epochs", "slots_moved", "bytes_moved")], [0] * 4)
        self.assertLess(document["on"]["imbalance_mean"], document["off"]["imbalance_mean"])

    def test_fractal_nz(self):
        document = self.serve(*SMALL, "--ranks", 2, "--layout", "nz")
        self.check(document, "inproc", 2)
        self.assertEqual(document["layout"], "nz")

    def test_layouts_serve_the_same(self):
        dense, nz = (self.serve(*SMALL, "--ranks", 2, "--layout", layout) for layout in ("dense", "nz"))
        for key in ("slots_moved", "bytes_moved", "tokens_on_moved_slots"):
            self.assertEqual(dense[key], nz[key])

    def test_staging_of_one_expert(self):
        odd = ("--forwards", 16, "--tokens", 64, "--hidden", 60, "--intermediate", 31, "--rebalance-every", 2)
        says = self.fail_with(4, "run", *odd, "--ranks", 2, "--staging-budget", 1, says=("holds no expert",))
        need = int(re.search(r"one takes (\d+)$", says.strip()).group(1))
        self.fail_with(4, "run", *odd, "--ranks", 2, "--staging-budget", need - 1, says=(str(need),))
        document = self.serve(*odd, "--ranks", 2, "--staging-budget", need)
        self.check(document, "inproc", 2)
        self.assertEqual(document["memory"]["staging_budget_bytes"], need)
        self.assertGreater(document["epochs"], document["migrations"])

    def test_a_stall_budget_takes_more_steps(self):
        document = self.serve(*SMALL, "--ranks", 2, "--stall-budget-ms", 0.001)
        self.check(document, "inproc", 2)
        self.assertGreater(document["epochs"], document["migrations"])

    def test_a_corrupted_transfer(self):
        for layout in ("dense", "nz"):
            document, summary = self.serve_telling(*SMALL, "--ranks", 2, "--layout", layout, "--inject-fault", "corrupt:5")
            self.check(document, "inproc", 2, rolled_back=1)
            self.assertEqual(document["faults"], [{"kind": "corrupt", "at": 5, "struck": True}])
            self.assertEqual((document["rollbacks"][0]["epoch"], document["rollbacks"][0]["code"]), (0, "corrupt"))
            self.assertIn("in staging", document["rollbacks"][0]["why"])
            self.assertIn("corrupt at transfer 5: struck", summary)
            self.assertIn(document["rollbacks"][0]["why"], summary)

    def test_a_dropped_transfer(self):
        document = self.serve(*SMALL, "--ranks", 2, "--inject-fault", "drop:5")
        self.check(document, "inproc", 2, rolled_back=1)
        self.assertEqual(document["faults"], [{"kind": "drop", "at": 5, "struck": True}])

    def test_a_delay_is_waited_for(self):
        document = self.serve(*SMALL, "--ranks", 2, "--inject-fault", "delay:5")
        self.check(document, "inproc", 2)
        self.assertEqual(document["faults"], [{"kind": "delay", "at": 5, "struck": True}])

    def test_a_delay_beyond_the_deadline(self):
        document = self.serve(*SMALL, "--ranks", 2, "--inject-fault", "delay:5:60000")
        self.check(document, "inproc", 2, rolled_back=1)
        self.assertEqual(document["rollbacks"][0]["code"], "timeout")

    def test_several_faults_and_one_that_nothing_reaches(self):
        document, summary = self.serve_telling(*SMALL, "--ranks", 3, "--inject-fault", "corrupt:0",
                                               "--inject-fault", "corrupt:250", "--inject-fault", "drop:1000000")
        self.check(document, "inproc", 3, rolled_back=2)
        self.assertEqual([fault["struck"] for fault in document["faults"]], [True, True, False])
        self.assertIn("drop at transfer 1000000: not reached", summary)

    def test_graph_replay(self):
        for layout in ("dense", "nz"):
            document, summary = self.serve_telling(*SMALL, "--ranks", 2, "--layout", layout, "--graph-replay")
            self.check(document, "inproc", 2)
            self.assertIs(document["graph_replay"], True)
            replay = document["replay"]
            self.assertEqual(replay["sizes"], [1, 2, 4, 8, 16, 32, 64])
            self.assertEqual((replay["replays"], replay["tokens"]), (2 * 2 * 16, 2 * 2 * 16 * 64))
            self.assertEqual(replay["padded_rows"], 0)  # Every forward has as many tokens as the largest.
            self.assertGreater(replay["tables"], 4)  # One for each arm and rank, and those of new epochs.
            self.assertIn("replay     7 forwards recorded for up to 64 tokens, replayed 64 times", summary)

    def test_without_graph_replay_nothing_is_said_of_it(self):
        document, summary = self.serve_telling(*SMALL, "--ranks", 2)
        self.assertEqual((document["graph_replay"], document["replay"]), (False, None))
        self.assertNotIn("\nreplay ", summary)

    def test_graph_replay_with_exact_shares(self):
        document = self.serve(*SMALL, "--ranks", 3, "--split", "exact", "--graph-replay")
        self.check(document, "inproc", 3)
        self.assertEqual(document["splits"], 16)

    def test_a_mutant_that_only_captured_addresses_notice(self):
        document, summary = self.serve_telling(*SMALL, "--ranks", 2, "--graph-replay", "--mutant", "new-storage",
                                               status=1)
        self.assertIs(document["outputs_identical"], False)
        self.assertGreater(document["migrations"], 0)
        self.assertIn("new-storage: noticed", summary)

    def test_mutants_change_outputs(self):
        for mutant in ("wrong-scale", "table-before-weights"):
            document, summary = self.serve_telling(*SMALL, "--ranks", 2, "--mutant", mutant, status=1)
            self.assertIs(document["outputs_identical"], False)
            self.assertEqual(document["mutant"], mutant)
            self.assertIn(f"{mutant}: noticed", summary)

    def test_document_goes_to_a_file_and_the_summary_to_the_output(self):
        summary = self.succeed("run", *SMALL, "--ranks", 2, "--json", "run.json")
        self.check(self.read_json("run.json"), "inproc", 2)
        for word in ("speed-up", "imbalance", "migrations", "identical"):
            self.assertIn(word, summary)

    def test_what_is_served_depends_on_the_seed_alone(self):
        first, again = (self.serve(*SMALL, "--ranks", 2, "--seed", 5) for _ in range(2))
        other = self.serve(*SMALL, "--ranks", 2, "--seed", 6)
        for key in ("slots_moved", "bytes_moved"):
            self.assertEqual(first[key], again[key])
        self.assertEqual(first["off"]["imbalance_mean"], again["off"]["imbalance_mean"])
        self.assertNotEqual(first["off"]["imbalance_mean"], other["off"]["imbalance_mean"])

    @unittest.skipUnless(recorded_loads("deepseek-v3_*.json"), "no recorded loads: TRIMTAB_LOADS_DIR is not set")
    def test_two_recorded_phases(self):
        files = [recorded_loads(f"deepseek-v3_{name}.json")[0] for name in ("prefill_in1024", "decode_in1000out1000")]
        document = self.serve(*SMALL, "--ranks", 2, "--loads", *files, "--layers", "3:7", "--groups", 8, "--top-groups", 4)
        self.check(document, "inproc", 2)
        self.assertEqual((document["model"]["layers"], document["model"]["experts"]), (4, 256))


@unittest.skipUnless(MPIEXEC, "built without MPI")
class RunUnderMpi(Run):
    RANKS = 2

    def command(self, *arguments):
        arguments = [str(argument) for argument in arguments]
        ranks = self.RANKS
        if "--ranks" in arguments:
            ranks = int(arguments[arguments.index("--ranks") + 1])
        return [*MPIEXEC, "-n", str(ranks), BINARY, "run", "--transport", "mpi", *arguments, "--json", "-"]

    def check(self, document, transport, ranks, rolled_back=0):
        super().check(document, "mpi", ranks, rolled_back)

    def test_document_goes_to_a_file_and_the_summary_to_the_output(self):
        self.skipTest("the same code as with threads")

    def test_layouts_serve_the_same(self):
        self.skipTest("the same code as with threads")

    def test_staging_of_one_expert(self):
        self.skipTest("the same code as with threads, and hundreds of steps")

    def test_four_processes(self):
        self.check(self.serve(*SMALL, "--ranks", 4), "mpi", 4)

    def test_serves_what_threads_serve(self):
        processes = self.serve(*SMALL, "--ranks", 2)
        done = subprocess.run(super().command(*SMALL, "--ranks", 2), cwd=self.folder, capture_output=True, check=True)
        threads = json.loads(done.stdout)
        for key in ("slots_moved", "bytes_moved", "epochs"):
            self.assertEqual(processes[key], threads[key])
        self.assertEqual(processes["off"]["imbalance_mean"], threads["off"]["imbalance_mean"])
        self.assertEqual(processes["traffic"]["forward"], threads["traffic"]["forward"])

    def test_bad_input_is_said_once(self):
        done = subprocess.run([*MPIEXEC, "-n", "2", BINARY, "run", "--transport", "mpi", "--loads", "none.json"],
                              cwd=self.folder, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stderr.count("none.json"), 1, done.stderr)


class Refusals(ProgramTest):
    def loads(self, name, rows):
        return self.write(name, json.dumps({"logical_count": rows}))

    def test_mpi_without_a_launcher(self):
        self.fail_with(2, "run", "--transport", "mpi", says=("mpi",))

    def test_missing_file(self):
        self.fail_with(3, "run", "--loads", "none.json", says=("none.json",))

    def test_dense_layer(self):
        self.loads("a.json", [[0, 0, 0, 0], [1, 2, 3, 4]])
        self.fail_with(3, "run", "--loads", "a.json", "--layers", "0:2", says=("a.json", "layer 0"))

    def test_layers_beyond_the_file(self):
        self.loads("a.json", [[1, 2, 3, 4]])
        self.fail_with(2, "run", "--loads", "a.json", "--layers", "0:2", says=("--layers", "0:1"))

    def test_phases_of_different_shape(self):
        self.loads("a.json", [[1, 2, 3, 4]])
        self.loads("b.json", [[1, 2, 3]])
        self.fail_with(3, "run", "--loads", "a.json", "b.json", says=("b.json", "1 layers x 3 experts", "a.json"))

    def test_more_experts_than_slots(self):
        self.fail_with(4, "run", "--ranks", 2, "--slots-per-rank", 15, says=("2 ranks x 15 slots < 32 experts",))

    def test_an_expert_that_no_routing_can_make_so_popular(self):
        self.loads("a.json", [[97, 1, 1, 1]])
        self.fail_with(4, "run", "--loads", "a.json", "--top-k", 2, says=("layer 0", "expert 0"))

    def test_a_pace_for_shares_that_do_not_change(self):
        self.fail_with(2, "run", "--split-every", 4, says=("--split-every", "--split exact"))

    def test_faults_that_are_none(self):
        for spec, says in (("melt:3", "'melt' is not corrupt, drop, delay, kill, stop or cut"), (":3", "'' is not"),
                           ("corrupt", "corrupt:N"), ("drop:3:9", "drop:N"), ("delay:1:2:3", "delay:N:MS"),
                           ("corrupt:-1", "'-1' is not the number"), ("drop:1e3", "'1e3' is not the number"),
                           ("drop:99999999999999999999", "is not the number"), ("delay:3:0", "'0' is not 1 to")):
            self.fail_with(2, "run", f"--inject-fault={spec}", says=("--inject-fault", says))

    def test_two_faults_at_one_transfer(self):
        self.fail_with(2, "run", "--inject-fault", "drop:3", "--inject-fault", "corrupt:3",
                       says=("--inject-fault", "transfer 3 has another fault"))

    def test_mutants_that_do_not_show_in_outputs(self):
        self.fail_with(2, "run", "--mutant", "vote-ignored", says=("--mutant", "wrong-scale", "table-before-weights"))

    def test_a_mutant_that_needs_replay(self):
        self.fail_with(2, "run", "--mutant", "new-storage", says=("--mutant", "needs --graph-replay"))

    def test_unknown_layout(self):
        self.fail_with(2, "run", "--layout", "strided", says=("--layout", "dense", "nz"))

    def test_unknown_flag(self):
        self.fail_with(2, "run", "--spped", says=("--spped",))

    def test_nothing_is_written_on_failure(self):
        self.write("run.json", "before")
        self.fail_with(4, "run", "--ranks", 2, "--slots-per-rank", 15, "--json", "run.json")
        self.assertEqual((self.folder / "run.json").read_text(), "before")


if __name__ == "__main__":
    unittest.main()
