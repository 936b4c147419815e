#!/usr/bin/env python3
"""gemv.py ENGINE [TRIPS]: whether tests/gpu/gemv.trek, and tokens of a small language model, give under fast numerics on
an engine what they give on ref, as near as the order of sums and one rounding to 16 bits let them.
"""
import array
import os
import subprocess
import sys
import tempfile

RUN = os.path.join(os.environ["TREK_BIN"], "trek-run")
# Of a result what share of the largest it may be off by: by the order of sums alone; and where a row of 16 bits stands
# between, elements of which another order rounds the other way.
SUMS = 2e-5
ROUNDED = {"f16": 2e-3, "bf16": 1.6e-2}


def numbers(path, kind):
    """The elements of a raw file as floats."""
    with open(path, "rb") as file:
        data = file.read()
    if kind == "f32":
        return list(array.array("f", data))
    halves = array.array("H", data)
    if kind == "bf16":
        return list(array.array("f", array.array("I", [h << 16 for h in halves]).tobytes()))
    return [half_to_float(h) for h in halves]


def half_to_float(bits):
    sign = -1.0 if bits & 0x8000 else 1.0
    exponent, fraction = bits >> 10 & 31, bits & 1023
    if exponent == 31:
        return sign * (float("inf") if fraction == 0 else float("nan"))
    if exponent == 0:
        return sign * fraction * 2.0**-24
    return sign * (1 + fraction / 1024) * 2.0 ** (exponent - 15)


def run(engine, numerics, program, options, outputs, folder):
    command = [RUN, program, "--engine", engine, "--numerics", numerics, "--quiet", *options]
    for name in outputs:
        command += ["--output", f"{name}={folder}/{engine}.{name}.raw"]
    subprocess.run(command, check=True)


def compare(engine, program, options, outputs):
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        run("ref", "strict", program, options, outputs, folder)
        run(engine, "fast", program, options, outputs, folder)
        for name, (kind, most_off) in outputs.items():
            expected = numbers(f"{folder}/ref.{name}.raw", kind)
            given = numbers(f"{folder}/{engine}.{name}.raw", kind)
            most = max(abs(x) for x in expected)
            worst = max(range(len(expected)), key=lambda i: distance(expected[i], given[i]))
            off = distance(expected[worst], given[worst]) / most
            if len(expected) != len(given) or most == 0 or not off <= most_off:
                print(f"{program} {' '.join(options)}: {name}[{worst}] is {given[worst]}, "
                      f"where ref has {expected[worst]}: {off:.2e} of the largest")
                failed = True
    return failed


def distance(a, b):
    return abs(a - b) if a == a and b == b else float("inf")


def main():
    engine = sys.argv[1]
    trips = sys.argv[2] if len(sys.argv) > 2 else "3"
    bf16 = ROUNDED["bf16"]
    f16 = ROUNDED["f16"]
    failed = compare(
        engine, "tests/gpu/gemv.trek", ["--set", f"trips={trips}"],
        {"given_few": ("f32", bf16), "half_few": ("bf16", bf16), "given_wide": ("f32", f16),
         "half_wide": ("f16", f16), "given_deep": ("f32", bf16), "half_deep": ("bf16", bf16),
         "given_short": ("f32", SUMS), "given_long": ("f32", SUMS), "given_many": ("f32", SUMS),
         "answer": ("f32", bf16), "mixed": ("f32", bf16), "keys": ("bf16", bf16), "values": ("bf16", bf16)})
    for sizes in (["LAYERS=1", "D=128", "HEADS=2", "VOCABULARY=512"],
                  ["LAYERS=2", "D=192", "HEADS=3", "VOCABULARY=1000"],
                  ["LAYERS=1", "D=512", "HEADS=8", "VOCABULARY=6000"]):
        options = ["--set", f"trips={trips}"]
        for size in sizes:
            options += ["-D", size]
        failed |= compare(engine, "tests/bench/programs/gpt2_token.trek", options,
                          {"logits": ("f32", bf16), "keys_0": ("bf16", bf16)})
    sys.exit(1 if failed else 0)


main()
