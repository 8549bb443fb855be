# SPDX-License-Identifier: Apache-2.0
import unittest

import compare


def results(**changes):
    row = {"name": "plan/a", "median_ns": 100.0, **changes}
    return {"machine": {"cpu": "x", "cores": 2, "compiler": "g++", "flags": "-O3"}, "benchmarks": [row]}


class Regressions(unittest.TestCase):
    def test_fourteen_percent_slower_passes_and_sixteen_does_not(self):
        self.assertEqual(compare.regressions(results(), results(median_ns=114.0)), [])
        (line,) = compare.regressions(results(), results(median_ns=116.0))
        self.assertIn("1.160 of before, the limit is 1.15", line)

    def test_what_is_not_ours_may_be_slower_or_missing(self):
        self.assertEqual(compare.regressions(results(is_peer=True), results(median_ns=200.0)), [])
        self.assertEqual(compare.regressions(results(is_peer=True), {"benchmarks": []}), [])

    def test_faster_is_never_an_error(self):
        self.assertEqual(compare.regressions(results(), results(median_ns=1.0)), [])

    def test_throughput_decides_where_there_is_one(self):
        before = results(bytes_per_second=100.0)
        self.assertEqual(compare.regressions(before, results(bytes_per_second=96.0, median_ns=200.0)), [])
        self.assertEqual(len(compare.regressions(before, results(bytes_per_second=94.0))), 1)
        self.assertEqual(len(compare.regressions(before, results())), 1)

    def test_a_missing_benchmark_is_an_error(self):
        self.assertEqual(compare.regressions(results(), results(name="plan/b")), ["plan/a: missing"])

    def test_a_slower_twin_is_not_our_regression(self):
        self.assertEqual(compare.regressions(results(name="a/twin"), results(name="a/twin", median_ns=999.0)), [])

    def test_another_machine_cannot_be_compared(self):
        other = results()
        other["machine"]["cpu"] = "y"
        self.assertIn("cpu was 'x', is 'y'", compare.machine_difference(results(), other))
        self.assertIsNone(compare.machine_difference(results(), results()))


if __name__ == "__main__":
    unittest.main()
