# SPDX-License-Identifier: Apache-2.0
"""How a job of MPI processes ends: what is said is not lost when a launcher ends all as soon as one has ended."""

import os
import pathlib
import subprocess
import sys
import unittest

from program import BINARY, ProgramTest

MPIEXEC = os.environ.get("TRIMTAB_MPIEXEC", "").split()  # Empty where it was built without MPI.
SLOW_OUTPUT = str(pathlib.Path(__file__).with_name("slow_output.py"))


@unittest.skipUnless(MPIEXEC, "built without MPI")
class JobEnds(ProgramTest):
    def launch(self, first, second):
        """Two ranks, each a command of its own."""
        return subprocess.run([*MPIEXEC, "-n", "1", *first, ":", "-n", "1", *second], cwd=self.folder, text=True,
                              capture_output=True, check=False, timeout=120)

    def launch_with_slow_first(self, stream, *arguments):
        other = self.folder / "other"
        os.mkfifo(other)
        command = [BINARY, *map(str, arguments)]
        return self.launch([sys.executable, "-B", SLOW_OUTPUT, str(stream), str(other), *command],
                           ["sh", "-c", f'echo $$ > {other}; exec "$@"', "sh", *command])

    def test_bad_input_is_said_by_a_slow_rank(self):
        done = self.launch_with_slow_first(2, "run", "--transport", "mpi", "--loads", "none.json")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stderr.count("none.json"), 1, done.stderr)

    def test_a_campaign_that_is_refused_is_said_by_a_slow_rank(self):
        done = self.launch_with_slow_first(2, "verify", "--transport", "mpi", "--staging-budget", 1)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(done.stderr.count("one bundle takes"), 1, done.stderr)

    def test_a_failed_check_is_summed_up_by_a_slow_rank(self):
        done = self.launch_with_slow_first(1, "run", "--transport", "mpi", "--mutant", "wrong-scale", "--forwards", 16,
                                           "--tokens", 16, "--hidden", 16, "--intermediate", 16)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("outputs    DIFFERENT", done.stdout)

    def test_input_that_one_rank_lacks(self):
        self.write("loads.json", '{"logical_count": [[1, 2, 3, 4]]}')
        (self.folder / "elsewhere").mkdir()
        command = [BINARY, "run", "--transport", "mpi", "--loads", "loads.json"]
        done = self.launch(command, ["-wdir", str(self.folder / "elsewhere"), *command])
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stderr.count("trimtab run: rank 1: loads.json: cannot be read"), 1, done.stderr)

    def test_a_wrong_option_that_shows_late_is_said_once(self):
        self.write("loads.json", '{"logical_count": [[1, 2, 3, 4]]}')
        command = [BINARY, "run", "--transport", "mpi", "--loads", "loads.json", "--layers", "0:2"]
        done = self.launch(command, command)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("trimtab run: --layers"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
