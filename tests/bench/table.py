#!/usr/bin/env python3
"""table.py REPORT.json: the comparisons and figures of a report as the tables that READMEs show."""

import json
import math
import sys


def short(value):
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}".replace(",", " ")


def interval(estimate):
    low, high = estimate["interval95"]
    return f"{short(estimate['median'])} ({short(low)} to {short(high)})"


def time(estimate):
    return f"{short(estimate['median'] * 1e6)} µs"


def print_lists(members):
    """Of each list, what is judged: the geometric mean of the ratios, and the lowest."""
    lists = {}
    for each in members:
        lists.setdefault((each["list"], each["ours"], each["rival"]), []).append(each)
    if not lists:
        return
    print("\n| list | ours | rival | shapes | geometric mean | asked for | lowest |")
    print("|---|---|---|--:|--:|--:|---|")
    for (name, ours, rival), each in lists.items():
        ratios = [(one["ratio"]["median"], one["name"]) for one in each]
        mean = math.exp(sum(math.log(ratio) for ratio, _ in ratios) / len(ratios))
        least, of = min(ratios)
        print(f"| {name} | {ours} | {rival} | {len(ratios)} | {mean:.3f} | "
              f"{each[0]['target_ratio']:.3g} | {short(least)} ({of}) |")


def main(path):
    with open(path, encoding="utf-8") as file:
        report = json.load(file)
    print(f"`{report['command']}`, {report['date']}, revision {report['revision']}, "
          f"{report['hardware'].get('gpu', report['hardware']['cpu'])}\n")
    print("| work | ours | rival | ours takes | rival takes | rival ÷ ours (95 %) | asked for |")
    print("|---|---|---|--:|--:|--:|--:|")
    comparisons = report.get("comparisons", [])
    for each in comparisons:
        asked = f"{each['target_ratio']:.3g}" if "target_ratio" in each else ""
        print(f"| {each['name']} | {each['ours']} | {each['rival']} | {time(each['ours_seconds'])} | "
              f"{time(each['rival_seconds'])} | {interval(each['ratio'])} | {asked} |")
    print_lists([each for each in comparisons if "list" in each])
    print("\n| figure | | at most |\n|---|--:|--:|")
    for each in report.get("figures", []):
        asked = f"{each['at_most']:.3g}" if "at_most" in each else ""
        print(f"| {each['name']} | {interval(each)} {each['unit']} | {asked} |")
    for note in report.get("notes", []):
        print(f"\n{note}.")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
