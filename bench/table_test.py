# SPDX-License-Identifier: Apache-2.0
import unittest

import table


def repetition(name, time, **fields):
    return {"name": name, "run_name": name, "run_type": "iteration", "real_time": time, "time_unit": "us", **fields}


def report(name, times, **fields):
    return {"benchmarks": [repetition(name, time, **fields) for time in times]}


class Rows(unittest.TestCase):
    def test_median_and_p95_are_in_nanoseconds(self):
        (row,) = table.rows_of(report("route/dispatch", [*range(1, 20), 1000]))
        self.assertEqual(row["median_ns"], 10_500)
        self.assertEqual(row["p95_ns"], 1_000_000)

    def test_rates_and_counters_are_kept_apart(self):
        (row,) = table.rows_of(report("a", [1] * 10, bytes_per_second=5.0, imbalance=1.25))
        self.assertEqual(row["bytes_per_second"], 5.0)
        self.assertEqual(row["counters"], {"imbalance": 1.25})

    def test_aggregates_of_the_library_are_ignored(self):
        run = report("a", [1] * 10)
        run["benchmarks"].append({**repetition("a", 99), "run_type": "aggregate"})
        self.assertEqual(table.rows_of(run)[0]["p95_ns"], 1000)

    def test_too_few_repetitions_are_refused(self):
        with self.assertRaisesRegex(table.BadRun, "9 repetitions, at least 10"):
            table.rows_of(report("a", [1] * 9))
        (row,) = table.rows_of(report("a", [1] * 9), min_repetitions=1)
        self.assertEqual(row["median_ns"], 1000)

    def test_a_failed_check_is_refused_with_its_message(self):
        with self.assertRaisesRegex(table.BadRun, "wrong counts"):
            table.rows_of(report("a", [1] * 10, error_occurred=True, error_message="wrong counts"))


class Twins(unittest.TestCase):
    def paired(self, *names):
        rows = [{"name": name, "median_ns": 1.0} for name in names]
        return {row["name"]: twin and twin["name"] for row, twin in table.pair(rows)}

    def test_a_twin_is_found_beside_its_case_and_is_no_row_of_its_own(self):
        self.assertEqual(self.paired("plan/58x256", "plan/58x256/twin"), {"plan/58x256": "plan/58x256/twin"})

    def test_arguments_follow_the_twin(self):
        self.assertEqual(self.paired("post/8", "post/9", "post/twin/8"), {"post/8": "post/twin/8", "post/9": None})

    def test_one_twin_may_serve_an_area(self):
        self.assertEqual(self.paired("store/read", "store/twin"), {"store/read": "store/twin"})

    def test_the_nearest_twin_wins(self):
        self.assertEqual(self.paired("s/read", "s/twin", "s/read/twin"), {"s/read": "s/read/twin"})


class Markdown(unittest.TestCase):
    def test_a_row_shows_ours_the_twin_and_the_ratio(self):
        rows = table.rows_of(report("a/b", [30] * 10, gap=2.0, moves=7.0))
        rows += table.rows_of(report("a/b/twin", [20] * 10, gap=3.0))
        text = table.markdown(rows, "a machine")
        self.assertTrue(text.startswith("a machine\n\n| benchmark"))
        self.assertRegex(text, r"\| a/b +\| 30 us +\| 30 us +\| +\| 20 us +\| 1\.50 +\| gap 2 \(3\), moves 7 +\|")


if __name__ == "__main__":
    unittest.main()
