#!/usr/bin/env python3
"""gemv_random.py ENGINE [FIRST [COUNT]]: whether random chains of products of one row of 16 bits, which the resident emulator
executes as GEMV under fast numerics, give on an engine what they give on ref. FIRST is the seed of the first (0), COUNT how
many there are (20). Each is a loop of two trips of a few layers, whose rows are cast, normed or go through a softmax, and which
have biases, activations and residual streams. A program that is off stays, and its path is printed.
"""
import array
import os
import random
import subprocess
import sys
import tempfile

RUN = os.path.join(os.environ["TREK_BIN"], "trek-run")
MOST_OFF = 3e-2  # of the largest: another order of sums, and 16 bits that are rounded the other way for it, layer by layer
MOST_SOFTMAX = 128  # elements of a row


class Program:
    """The text of one, from its seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.states = []
        self.body = []
        self.key = 1
        width = self.random.choice([64, 96, 128, 256])
        self.state("x", f"f32[1,{width}]", 0, 1)
        self.body.append("%stream = copy @x")
        row, k = "%stream", width
        layers = self.random.randint(2, 5)
        for layer in range(layers):
            n = width if layer == layers - 1 else self.random.choice([32, 64, 96, 128, 256])
            row, k = self.layer(layer, row, k, n), n
        outputs = [f".output @given f32[1,{width}]"]
        self.body.append(f"@given = copy {row}")
        self.body += [f"%less = mul {row}, 0.7", "@x = copy %less"]
        lines = "\n    ".join(self.body)
        self.text = "\n".join([".trek 1.0", ".param $trips i64 = 2", *self.states, *outputs, ".func main() {",
                               "  loop $i = 0 until $trips {", f"    {lines}", "  }", "}", ""])

    def state(self, name, kind, mean, deviation):
        self.states.append(f".state @{name} {kind} = normal({mean}, {deviation:.4f}, key={self.key})")
        self.key += 1

    def layer(self, i, row, k, n):
        """A product of what is made of a row of k elements; the name of its n."""
        forms = ["cast", "norm"] + ["softmax"] * (k <= MOST_SOFTMAX)
        form = self.random.choice(forms)
        kind = self.random.choice(["bf16", "bf16", "f16"])
        made = row
        if form == "norm":
            made = self.norm(i, row, k)
        elif form == "softmax":
            made = f"%shares{i}"
            self.body.append(f"{made} = softmax {row}")
        self.body.append(f"%row{i} = cast {made}, to={kind}")
        by_line = self.random.random() < 0.4
        shape = f"{n},{k}" if by_line else f"{k},{n}"
        self.state(f"w{i}", f"{kind}[{shape}]", 0, 2 if form == "softmax" else k**-0.5)
        product = f"matmul %row{i}, @w{i}{', tb' if by_line else ''}, to=f32"
        if self.random.random() < 0.5:
            self.state(f"b{i}", f"{self.random.choice(['f32', kind])}[{n}]", 0, 1)
            product += f", bias=@b{i}"
        if self.random.random() < 0.5:
            product += f", tail={self.random.choice(['relu', 'tanh', 'gelu.tanh', 'sigmoid'])}"
        self.body.append(f"%y{i} = {product}")
        if n != k or self.random.random() < 0.5:
            return f"%y{i}"
        self.body.append(f"%z{i} = add {row}, %y{i}")
        return f"%z{i}"

    def norm(self, i, row, k):
        self.state(f"scale{i}", f"f32[{k}]", 1, 0.1)
        self.state(f"shift{i}", f"f32[{k}]", 0, 0.1)
        self.body += [f"%mean{i} = mean {row}, axis=1, keep", f"%centred{i} = sub {row}, %mean{i}",
                      f"%square{i} = mul %centred{i}, %centred{i}",
                      f"%spread{i} = mean %square{i}, axis=1, keep", f"%safe{i} = add %spread{i}, 1e-5",
                      f"%factor{i} = rsqrt %safe{i}", f"%unit{i} = mul %centred{i}, %factor{i}",
                      f"%normed{i} = fma %unit{i}, @scale{i}, @shift{i}"]
        return f"%normed{i}"


def given(engine, numerics, path, folder):
    """What a program gives, as floats."""
    output = os.path.join(folder, f"{engine}.raw")
    subprocess.run([RUN, path, "--engine", engine, "--numerics", numerics, "--quiet", "--output", f"given={output}"],
                   check=True)
    with open(output, "rb") as file:
        return array.array("f", file.read())


def main():
    engine = sys.argv[1]
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    off = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            path = os.path.join(folder, "program.trek")
            text = Program(seed).text
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            expected = given("ref", "strict", path, folder)
            found = given(engine, "fast", path, folder)
            most = max(map(abs, expected))
            worst = max(abs(x - y) if x == x and y == y else float("inf") for x, y in zip(expected, found))
            if len(expected) == len(found) and worst <= MOST_OFF * most:
                continue
            off += 1
            kept = os.path.join(tempfile.gettempdir(), f"gemv_random_{seed}.trek")
            with open(kept, "w", encoding="utf-8") as file:
                file.write(text)
            print(f"{kept}: off by {worst:.2e}, where the largest is {most:.2e}")
    print(f"{count} programs, {off} of them off")
    sys.exit(1 if off else 0)


main()
