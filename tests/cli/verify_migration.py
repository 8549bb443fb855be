# SPDX-License-Identifier: Apache-2.0
"""`trimtab verify`: campaigns, mutants, replays and refusals, with simulated ranks and with MPI processes."""

import json
import os
import pathlib
import signal
import subprocess
import time
import unittest

from program import BINARY, ProgramTest, run

MPIEXEC = os.environ.get("TRIMTAB_MPIEXEC", "").split()  # Empty where it was built without MPI.
KEYS = ["schema", "transport", "cases", "programs", "faults_injected", "committed", "rolled_back", "in_doubt",
        "in_doubt_resolved", "kills", "stops", "cuts", "views", "violations", "mutants", "mutants_caught", "corrupted", "corrupted_detected", "bytes_moved",
        "bytes_lower_bound", "staging_peak_bytes", "staging_budget_bytes", "seconds", "failed_checks", "mutant_trials"]


def children_of(process):
    return [int(child) for child in pathlib.Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def is_running(process):
    """Zombies of a dead parent are no more than a number."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class CampaignTest(ProgramTest):
    def check(self, document, cases):
        """What every sound campaign says."""
        self.assertEqual(list(document), KEYS)
        self.assertEqual((document["schema"], document["cases"]), ("trimtab.verify/1", cases))
        self.assertGreaterEqual(document["programs"], cases // 2)
        self.assertEqual(document["programs"], document["committed"] + document["rolled_back"] + document["in_doubt"])
        self.assertGreater(document["committed"], 0)
        self.assertEqual((document["violations"], document["failed_checks"]), (0, []))
        self.assertEqual(document["corrupted_detected"], document["corrupted"])
        self.assertEqual(document["bytes_moved"], document["bytes_lower_bound"])
        self.assertLessEqual(document["staging_peak_bytes"], document["staging_budget_bytes"])
        self.assertGreater(document["staging_peak_bytes"], 0)


class Verify(CampaignTest):
    def verify(self, *arguments):
        done = run("verify", *arguments, "--json", "-", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_layouts(self):
        for layout in ("dense", "strided", "nz"):
            document = self.verify("--campaign", 60, "--layout", layout)
            self.check(document, 60)
            self.assertGreater(document["faults_injected"], 0)

    def test_without_faults_everything_commits(self):
        document = self.verify("--campaign", 50, "--faults", "none")
        self.check(document, 50)
        self.assertEqual(document["committed"], document["programs"])
        self.assertEqual(document["faults_injected"], 0)

    def test_corruption_alone_leaves_nobody_in_doubt(self):
        document = self.verify("--campaign", 200, "--faults", "corrupt", "--ranks", 3)
        self.check(document, 200)
        self.assertGreater(document["corrupted"], 10)

    def test_ranks_nodes_and_budgets(self):
        document = self.verify("--campaign", 5, "--ranks", 24, "--nodes", 4, "--staging-budget", "16KiB",
                               "--stall-budget", 300, "--deadline-ms", 50)
        self.check(document, 5)

    def test_mutants_are_caught(self):
        document = self.verify("--campaign", 60, "--mutants")
        self.check(document, 60)
        self.assertEqual((document["mutants"], document["mutants_caught"]), (9, 9))
        self.assertEqual(len({trial["mutant"] for trial in document["mutant_trials"]}), 9)
        for trial in document["mutant_trials"]:
            self.assertIsNotNone(trial["caught_by"], trial)
            self.assertLessEqual(trial["cases"], 60)

    def test_a_caught_mutant_is_replayed_by_its_line(self):
        summary = self.succeed("verify", "--campaign", 60, "--mutants")
        lines = [line.split("trimtab ")[1].split() for line in summary.splitlines() if "--mutant " in line]
        self.assertEqual(len(lines), 9)
        for line in lines:
            self.assertIn("mutants     1 of 1 caught", self.succeed(*line))
        told = self.trimtab(*lines[0], "--explain")
        self.assertEqual(told.returncode, 1)
        self.assertIn("VIOLATION", told.stdout)

    def test_a_mutant_that_is_not_caught_fails(self):
        done = run("verify", "--campaign", 1, "--faults", "none", "--mutants", "--json", "-", cwd=self.folder)
        self.assertEqual(done.returncode, 1, done.stderr)
        document = json.loads(done.stdout)
        self.assertLess(document["mutants_caught"], 9)
        self.assertIn("NOT CAUGHT", done.stderr)

    def test_the_seed_and_nothing_else_decides(self):
        first, again, other = (self.verify("--campaign", 40, "--seed", seed, "--jobs", jobs)
                               for seed, jobs in ((5, 1), (5, 2), (6, 2)))
        for document in (first, again, other):
            del document["seconds"]
        self.assertEqual(first, again)
        self.assertNotEqual(first, other)

    def test_explain_tells_programs_and_what_becomes_of_them(self):
        told = self.succeed("verify", "--explain", "--seed", 3)
        self.assertEqual(told, self.succeed("verify", "--explain", "--seed", 3))
        for text in ("case of seed 3: ", "program ", "lower bound", "step 1 of ", "idle -> proposed (begin)"):
            self.assertIn(text, told)

    def test_document_goes_to_a_file_and_the_summary_to_the_output(self):
        summary = self.succeed("verify", "--campaign", 20, "--json", "verify.json")
        self.check(self.read_json("verify.json"), 20)
        for word in ("programs", "lower bound", "staging", "violations  0"):
            self.assertIn(word, summary)


class VerifyOverUcx(CampaignTest):
    """The program forks its ranks itself, and does away with them."""

    def setUp(self):
        super().setUp()
        if "built without UCX" in run("verify", "--transport", "ucx", "--campaign", 1, cwd=self.folder).stderr:
            self.skipTest("built without UCX")

    def verify(self, *arguments):
        done = run("verify", "--transport", "ucx", "--ranks", 3, *arguments, "--json", "-", cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_processes_that_are_killed_stopped_and_cut_off(self):
        document = self.verify("--campaign", 30, "--faults", "kill,stop,cut")
        self.check(document, 30)
        self.assertEqual(document["transport"], "ucx")
        struck = document["kills"] + document["stops"] + document["cuts"]
        self.assertEqual(document["faults_injected"], struck)
        self.assertGreater(struck, 8)
        self.assertGreater(document["views"], 4)
        self.assertGreater(document["in_doubt_resolved"], 0)

    def test_messages_that_are_lost(self):
        document = self.verify("--campaign", 6, "--faults", "drop,corrupt")
        self.check(document, 6)
        self.assertEqual(document["views"], 0)

    def test_leaves_no_process_behind(self):
        command = [BINARY, "verify", "--transport", "ucx", "--campaign", "50", "--faults", "stop", "--deadline-ms", "1000"]
        for number in (signal.SIGINT, signal.SIGKILL):
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
                ranks = self.await_children(program.pid)
                program.send_signal(number)
                self.assertEqual(program.wait(), 130 if number == signal.SIGINT else -number)
            self.await_true(lambda ranks=ranks: not any(map(is_running, ranks)))

    def await_children(self, process):
        self.await_true(lambda: len(children_of(process)) >= 3)
        return children_of(process)

    def await_true(self, condition):
        until = time.monotonic() + 60
        while not condition():
            self.assertLess(time.monotonic(), until, "waited too long")
            time.sleep(0.01)

    def test_bad_input(self):
        self.fail_with(2, "verify", "--transport", "ucx", "--ranks", 65, says=("--ranks", "65 > 64"))
        self.fail_with(2, "verify", "--transport", "ucx", "--mutants", says=("--mutants",))
        self.fail_with(4, "verify", "--transport", "ucx", "--staging-budget", 1, says=("one bundle takes",))


class Refusals(ProgramTest):
    def test_a_budget_below_one_bundle_with_the_number_that_would_do(self):
        self.fail_with(4, "verify", "--campaign", 200, "--layout", "dense", "--staging-budget", 100,
                       says=("--staging-budget 100: one bundle takes ",))
        self.succeed("verify", "--campaign", 50, "--layout", "dense", "--staging-budget", 640)  # The largest.

    def test_unknown_names(self):
        self.fail_with(2, "verify", "--faults", "drop,dorp", says=("--faults", "dorp", "duplicate"))
        self.fail_with(2, "verify", "--layout", "sparse", says=("--layout", "sparse"))
        self.fail_with(2, "verify", "--mutant", "none", says=("--mutant", "none"))
        self.fail_with(2, "verify", "--transport", "udp", says=("--transport", "udp"))

    def test_numbers_out_of_range(self):
        for option in ("--campaign", "--ranks", "--nodes", "--deadline-ms", "--jobs"):
            self.fail_with(2, "verify", option, 0, says=(option,))
        self.fail_with(2, "verify", "--ranks", 2, "--nodes", 3, says=("--nodes", "3 nodes for 2 ranks"))

    def test_mpi_needs_a_launcher_and_plays_no_mutants(self):
        self.fail_with(2, "verify", "--transport", "mpi", says=("mpi",))
        self.fail_with(2, "verify", "--transport", "mpi", "--mutants", says=("--mutants",))
        self.fail_with(2, "verify", "--transport", "mpi", "--explain", says=("--explain",))

    def test_nothing_is_written_on_failure(self):
        self.write("verify.json", "before")
        self.fail_with(4, "verify", "--staging-budget", 1, "--json", "verify.json")
        self.assertEqual((self.folder / "verify.json").read_text(), "before")


@unittest.skipUnless(MPIEXEC, "built without MPI")
class VerifyUnderMpi(CampaignTest):
    def verify(self, *arguments):
        return json.loads(self.launch(3, *arguments, "--json", "-").stdout)

    def launch(self, ranks, *arguments, status=0):
        command = [*MPIEXEC, "-n", str(ranks), BINARY, "verify", "--transport", "mpi", *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    def test_faults(self):
        document = self.verify("--campaign", 20, "--deadline-ms", 200)
        self.check(document, 20)
        self.assertEqual(document["transport"], "mpi")
        self.assertGreater(document["faults_injected"], 0)

    def test_bad_input_is_said_once(self):
        done = self.launch(2, "--staging-budget", 1, status=4)
        self.assertEqual(done.stderr.count("one bundle takes"), 1, done.stderr)
        done = self.launch(2, "--ranks", 5, status=2)
        self.assertEqual(done.stderr.count("--ranks 5, but the MPI job has 2"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
