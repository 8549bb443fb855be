# SPDX-License-Identifier: Apache-2.0
"""A rank of `trimtab run` dies, is stopped or is cut off: the others go on, and serve its tokens again."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import unittest

from program import BINARY, ProgramTest

SIZES = ("--tokens", 64, "--hidden", 64, "--intermediate", 32, "--forwards")
SERVICE = ("run", "--transport", "ucx", *SIZES)
SMALL = (*SERVICE, 16)
SMALL_INPROC = ("run", *SIZES, 16)
LAYERS = 4
EXPERTS = 32


PATIENCE_S = 60  # For a machine that is busy otherwise.


class RunningRanks(ProgramTest):
    def start(self, *arguments):
        self.parent = subprocess.Popen([BINARY, *map(str, SERVICE), *map(str, arguments), "--ranks", "3"],
                                       cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.parent.communicate)
        self.addCleanup(self.parent.kill)
        self.ranks = self.wait_for(self.children, lambda ranks: len(ranks) == 3)
        self.addCleanup(lambda ranks: [os.close(rank) for rank in ranks], self.ranks)

    def children(self):
        self.pids = pathlib.Path(f"/proc/{self.parent.pid}/task/{self.parent.pid}/children").read_text().split()
        return [os.pidfd_open(int(child)) for child in self.pids] if len(self.pids) == 3 else []

    def wait_for(self, look, is_enough):
        deadline = time.monotonic() + PATIENCE_S
        while not is_enough(seen := look()):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return seen


class UnaskedDeaths(RunningRanks):
    def setUp(self):
        super().setUp()
        self.start(1000000, "--deadline-ms", 3000)
        # Until they have met: then each has a thread of UCX beside its own.
        self.wait_for(lambda: [len(os.listdir(f"/proc/{child}/task")) for child in self.pids], lambda n: min(n) > 1)

    def test_end_the_run_and_are_named(self):
        signal.pidfd_send_signal(self.ranks[1], signal.SIGKILL)
        _, errors = self.parent.communicate(timeout=PATIENCE_S)
        self.assertEqual(self.parent.returncode, 5, errors)
        self.assertEqual(errors, "trimtab run: rank 1 was killed by signal 9\n")

    def test_of_the_parent_takes_the_ranks_along(self):
        self.parent.kill()
        self.wait_for(lambda: [pathlib.Path(f"/proc/{child}").exists() and
                               " Z " not in pathlib.Path(f"/proc/{child}/stat").read_text()
                               for child in self.pids], lambda alive: not any(alive))


class SurvivedDeaths(RunningRanks):
    """With a folder for checkpoints ranks may be lost at any moment of the service, in either arm."""

    def lose(self, rank, number, after_s):
        checkpoint = self.folder / "checkpoint"
        checkpoint.mkdir(exist_ok=True)
        for shard in checkpoint.iterdir():
            shard.unlink()
        self.start(200, "--slots-per-rank", 18, "--rebalance-every", 2, "--checkpoint", checkpoint,
                   "--json", "run.json")
        self.wait_for(lambda: len(list(checkpoint.glob("*.safetensors"))), lambda shards: shards == 3)
        time.sleep(0.2 + after_s)
        signal.pidfd_send_signal(self.ranks[rank], number)
        said, errors = self.parent.communicate(timeout=PATIENCE_S)
        self.assertEqual((self.parent.returncode, errors), (0, ""), said)
        document = self.read_json("run.json")
        self.assertTrue(document["outputs_identical"])
        self.assertEqual(document["death"]["lost"], [rank])
        self.assertEqual(document["death"]["members"], [other for other in range(3) if other != rank])

    def test_of_killed_ranks(self):
        for rank, after_s in ((1, 0.0), (0, 0.1), (2, 0.25)):
            with self.subTest(rank=rank, after_s=after_s):
                self.lose(rank, signal.SIGKILL, after_s)

    def test_of_stopped_ranks(self):
        for rank, after_s in ((0, 0.0), (2, 0.15)):
            with self.subTest(rank=rank, after_s=after_s):
                self.lose(rank, signal.SIGSTOP, after_s)


class RunDeaths(ProgramTest):
    def setUp(self):
        super().setUp()
        self.scratch = self.folder / "scratch"
        self.scratch.mkdir()
        os.environ["TMPDIR"] = str(self.scratch)
        self.addCleanup(os.environ.pop, "TMPDIR")

    def serve(self, *arguments, says="", service=SMALL):
        result = self.trimtab(*service, "--json", "run.json", *arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, f"^{says}$")
        return json.loads((self.folder / "run.json").read_text())

    def check_loss(self, document, rank):
        """Of one of three with 18 slots each."""
        death = document["death"]
        self.assertTrue(document["outputs_identical"])
        self.assertGreater(document["reference_checked"], 0)
        self.assertEqual((death["rank"], death["lost"]), (rank, [rank]))
        self.assertEqual(death["members"], [other for other in range(3) if other != rank])
        self.assertGreater(death["tokens_taken_over"], 0)
        self.assertEqual(death["tokens_taken_over"] % 64, 0)
        self.assertGreater(death["experts_lost"], 0)
        self.assertLessEqual(death["experts_lost"], LAYERS * 18)
        self.assertGreater(death["bytes_recovered"], 0)
        blocks = document["blocks"]
        after = [block for block in blocks if block["first_forward"] > death["forward"]]
        self.assertTrue(after)
        self.assertTrue(all(block["balancing"] for block in after), "the off arm cannot go on")
        self.assertEqual(os.listdir(self.scratch), [], "the checkpoint is gone")

    def test_no_death_is_told_where_nobody_dies(self):
        self.assertIsNone(self.serve("--ranks", 2)["death"])

    def test_any_rank_may_die(self):
        for service in (SMALL, SMALL_INPROC):
            for rank in range(3):
                with self.subTest(service=service, rank=rank):
                    self.check_loss(self.serve("--ranks", 3, "--slots-per-rank", 18, "--inject-fault",
                                               f"kill:{rank}", service=service), rank)

    def test_any_rank_may_be_stopped(self):
        """It never goes on, and its parent does not wait for it."""
        for rank in (0, 2):
            with self.subTest(rank=rank):
                self.check_loss(self.serve("--ranks", 3, "--slots-per-rank", 18, "--inject-fault", f"stop:{rank}"),
                                rank)

    def test_any_rank_may_be_cut_off(self):
        """It cannot know that the others go on."""
        for rank in (0, 1):
            with self.subTest(rank=rank):
                document = self.serve("--ranks", 3, "--slots-per-rank", 18, "--inject-fault", f"cut:{rank}",
                                      "--deadline-ms", 2000, says=f"trimtab run: rank {rank}: .+\n")
                self.check_loss(document, rank)

    def test_a_rank_may_die_beside_lost_transfers(self):
        document = self.serve("--ranks", 3, "--slots-per-rank", 18, "--inject-fault", "kill:1", "--inject-fault",
                              "corrupt:3")
        self.check_loss(document, 1)

    def test_the_lower_of_two_may_go_on_alone(self):
        document = self.serve("--ranks", 2, "--slots-per-rank", EXPERTS, "--inject-fault", "kill:1")
        self.assertTrue(document["outputs_identical"])
        self.assertEqual(document["death"]["members"], [0])
        self.assertEqual(document["death"]["experts_lost"], 0)

    def test_the_higher_of_two_cannot_know_that_it_is_alone(self):
        self.fail_with(5, *SMALL, "--ranks", 2, "--slots-per-rank", EXPERTS, "--inject-fault", "kill:0",
                       "--deadline-ms", 1000, says=("rank 1: rank 0 is gone",))

    def test_the_ranks_left_need_a_slot_for_every_expert(self):
        for service, fault in ((SMALL, "kill:1"), (SMALL_INPROC, "kill:1"), (SMALL, "stop:0"), (SMALL, "cut:2")):
            result = self.trimtab(*service, "--ranks", 3, "--inject-fault", fault)
            self.assertEqual(result.returncode, 4)
            self.assertEqual(result.stderr,
                             f"trimtab run: {fault}: the ranks left have 24 slots per layer < 32 experts\n")
            self.assertEqual(os.listdir(self.scratch), [])

    def test_nobody_is_killed_who_is_not_there(self):
        result = self.trimtab(*SMALL, "--ranks", 3, "--inject-fault", "kill:3")
        self.assertEqual(result.returncode, 4)
        self.assertEqual(result.stderr, "trimtab run: kill:3: there are 3 ranks, from 0\n")

    def test_wrong_faults_of_ranks_are_usage_errors(self):
        for arguments in (("kill:x",), ("kill:1:2",), ("kill",), ("stop:-1",), ("cut:",),
                          ("kill:0", "--inject-fault", "kill:1"), ("kill:0", "--inject-fault", "stop:1")):
            result = self.trimtab(*SMALL, "--ranks", 3, "--inject-fault", *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn("--inject-fault", result.stderr)
        for arguments, why in ((("--transport", "mpi", "--inject-fault", "kill:1"), "kill needs --transport inproc or ucx"),
                               (("--inject-fault", "stop:1"), "stop needs --transport ucx"),
                               (("--inject-fault", "cut:1"), "cut needs --transport ucx"),
                               (("--transport", "mpi", "--checkpoint", "x"), "--checkpoint: needs --transport")):
            result = self.trimtab("run", *arguments)
            self.assertEqual(result.returncode, 2)
            self.assertIn(why, result.stderr)

    def test_a_folder_that_cannot_be_written_is_named(self):
        for service in (SMALL, SMALL_INPROC):
            self.fail_with(3, *service, "--ranks", 2, "--checkpoint", "missing", says=("missing",))


class LaunchedRanks(ProgramTest):
    """Ranks that are started one by one, each told where to meet the others."""

    def find_address(self):
        """For rank 0, which takes it a moment later: its port is below those that the system gives to connections."""
        for port in range(10000 + os.getpid() % 20000, 32768):
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
                return f"127.0.0.1:{port}"
        return self.fail("no port is free")

    def launch(self, *arguments):
        address = self.find_address()
        ranks = [subprocess.Popen([BINARY, *map(str, SMALL), "--slots-per-rank", "18", *map(str, arguments)],
                                  cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**os.environ, "TRIMTAB_BOOTSTRAP": address, "TRIMTAB_NUM_RANKS": "3",
                                       "TRIMTAB_RANK": str(rank)}) for rank in range(3)]
        outputs = [rank.communicate(timeout=PATIENCE_S) for rank in ranks]
        return [rank.returncode for rank in ranks], outputs

    def test_outlive_one_another(self):
        (self.folder / "checkpoint").mkdir()
        for fault, status in (("kill:1", -signal.SIGKILL), ("kill:0", -signal.SIGKILL), ("cut:2", 5)):
            with self.subTest(fault=fault):
                lost = int(fault[-1])
                statuses, outputs = self.launch("--inject-fault", fault, "--checkpoint", "checkpoint",
                                                "--deadline-ms", 2000, "--json", "run.json")
                self.assertEqual(statuses, [status if rank == lost else 0 for rank in range(3)], outputs)
                document = self.read_json("run.json")
                self.assertTrue(document["outputs_identical"])
                self.assertEqual(document["death"]["lost"], [lost])
                self.assertEqual([bool(said) for said, _ in outputs].count(True), 1, "one reports")
                for rank, (_, errors) in enumerate(outputs):
                    self.assertRegex(errors, rf"^trimtab run: rank {lost}: .+\n$" if rank == lost and status > 0
                                     else "^$")

    def test_need_a_folder_that_they_share(self):
        statuses, outputs = self.launch("--inject-fault", "kill:1")
        self.assertEqual(statuses, [2] * 3, outputs)
        self.assertIn("--checkpoint", outputs[0][1])
        self.assertEqual(outputs[1:], [("", "")] * 2)

    def test_have_nobody_that_would_end_a_stopped_one(self):
        statuses, outputs = self.launch("--inject-fault", "stop:1", "--checkpoint", ".")
        self.assertEqual(statuses, [2] * 3, outputs)
        self.assertIn("only with ranks that trimtab starts itself", outputs[0][1])


if __name__ == "__main__":
    unittest.main()
