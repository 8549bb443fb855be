# SPDX-License-Identifier: Apache-2.0
"""What is drawn on a terminal, and only there; and an interrupt."""

import os
import pty
import signal
import subprocess
import unittest

from program import BINARY, ProgramTest


class Terminal(ProgramTest):
    def talk(self, *arguments, **environment):
        """What the program writes to standard error when that is a terminal."""
        ours, theirs = pty.openpty()
        variables = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        process = subprocess.Popen([BINARY, *arguments], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=theirs,
                                   env={**variables, "TERM": "xterm", **environment})
        os.close(theirs)
        text = b""
        try:
            while piece := os.read(ours, 65536):
                text += piece
        except OSError:  # How a terminal says that the last writer is gone.
            pass
        os.close(ours)
        process.wait()
        return text.decode()

    def test_errors_are_coloured_unless_told_otherwise(self):
        self.assertIn("\033[1;31m", self.talk("inspect", "none.json"))
        self.assertNotIn("\033", self.talk("inspect", "none.json", NO_COLOR="1"))
        self.assertNotIn("\033", self.talk("inspect", "none.json", TERM="dumb"))
        self.assertNotIn("\033", self.trimtab("inspect", "none.json").stderr)

    def test_a_bar_is_drawn_while_a_large_file_is_read(self):
        self.write("large.json", '{"logical_count": [[1, 2]]' + 70_000_000 * " " + "}")
        text = self.talk("inspect", "large.json")
        self.assertIn("reading large.json [", text)
        self.assertIn("of 70 MB", text)
        self.assertTrue(text.endswith("\r\033[K"), text[-80:])
        self.succeed("inspect", "large.json")  # Nothing on standard error when it is a pipe.

    def test_no_bar_for_a_small_file(self):
        self.write("small.json", '{"logical_count": [[1, 2]]}')
        self.assertEqual(self.talk("inspect", "small.json"), "")


class Interrupt(ProgramTest):
    def test_ends_with_130(self):
        process = subprocess.Popen([BINARY, "inspect", "-"], stdin=subprocess.PIPE)
        process.stdin.write(b" " * (1 << 20))  # More than a pipe holds: returns once the program reads.
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 130)
        process.stdin.close()


if __name__ == "__main__":
    unittest.main()
