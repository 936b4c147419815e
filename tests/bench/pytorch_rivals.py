#!/usr/bin/env python3
"""The networks of tests/bench/programs/ as PyTorch runs them, driven by bench-gpu over pipes.

One request a line on standard input, one answer a line on standard output, both JSON:

    {"do": "hello"}                            -> {"versions": {...}}, or {"missing": why}
    {"do": "prepare", "network": N, "form": F, "tf32": B, "before": FILE, "seconds": at most}
                                               -> {"seconds": that it took}
    {"do": "check", "network": N, "before": FILE, "after": FILE, "trips": T, "numerics": N}
                                               -> {"what": ..., "error": e, "tolerance": t}
    {"do": "time", "network": N, "form": F, "tf32": B}
                                               -> {"seconds": of one trip}
    {"do": "forget", "network": N}             -> {}

FILE is a safetensors file of the program's state tensors. `check` repeats the program's trips in f64 from
the state before them and compares with the state after; `prepare` gives the network the same weights and
makes it ready in a form: `graph` (replayed as a CUDA graph), `compile` (torch.compile in a CUDA graph),
`autotune` (the same with max-autotune), `eager`. What fails is answered by {"error": why}, and where the
device can be used no more by {"error": why, "broken": true}: then the process ends.

f32 means f32, and TF32 is off, but where a request says otherwise. On a machine without CUDA there is
`fashion_mnist`, which is for the CPU, as `eager`; of the others only `check` works.
"""

import json
import os
import signal
import struct
import sys
import time

# What libraries print goes to standard error: standard output belongs to the answers.
ANSWERS = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)

FAR = 1e300
LEAST_SECONDS = 0.03  # of a sample, so that the ends of it do not count

try:
    import torch
    from pytorch_networks import NETWORKS
    torch.set_num_threads(os.cpu_count())
    MISSING = None
except Exception as problem:  # a library of CUDA that is not there is no ImportError
    MISSING = f"{type(problem).__name__}: {problem}"


def load(path):
    """The tensors of a safetensors file, on the CPU."""
    types = {"F32": torch.float32, "F64": torch.float64, "BF16": torch.bfloat16, "I64": torch.int64}
    with open(path, "rb") as file:
        head = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        start, tensors = file.tell(), {}
        for name, entry in head.items():
            if name == "__metadata__":
                continue
            first, end = entry["data_offsets"]
            file.seek(start + first)
            flat = torch.frombuffer(bytearray(file.read(end - first)), dtype=types[entry["dtype"]])
            tensors[name] = flat.reshape(entry["shape"])
    return tensors


def allow_tf32(allowed):
    torch.backends.cuda.matmul.allow_tf32 = allowed
    torch.backends.cudnn.allow_tf32 = allowed


class Rivals:
    def __init__(self):
        self.ready = {}  # (network, form, tf32) -> what made() gives

    def hello(self, _):
        if MISSING is not None:
            return {"missing": f"PyTorch cannot be imported by {sys.executable}: {MISSING}"}
        versions = {"pytorch": torch.__version__, "python": sys.version.split()[0]}
        if torch.cuda.is_available():
            versions["pytorch_cuda"] = str(torch.version.cuda)
            versions["cudnn"] = str(torch.backends.cudnn.version())
        return {"versions": versions, "cuda": torch.cuda.is_available()}

    def check(self, request):
        before, after = load(request["before"]), load(request["after"])
        network = NETWORKS[request["network"]]
        with torch.inference_mode(network.inference):
            check = network.check_fast if request["numerics"] == "fast" else network.check
            what, error, tolerance = check(before, after, request["trips"])
        if not error < FAR:  # JSON has neither NaN nor infinity
            error = FAR
        return {"what": what, "error": error, "tolerance": tolerance}

    def prepare(self, request):
        network, form = request["network"], request["form"]
        began = time.time()
        signal.alarm(request["seconds"])
        allow_tf32(request["tf32"])
        try:
            self.ready[network, form, request["tf32"]] = self.made(network, form, load(request["before"]))
        finally:
            signal.alarm(0)
        return {"seconds": time.time() - began}

    def made(self, network, form, state):
        """A function, how many trips it does, how many calls last long enough, and the network, which a
        graph uses and does not keep."""
        kind = NETWORKS[network]
        with torch.no_grad() if kind.inference else torch.enable_grad():
            made = kind(state)
            function, trips = made.form(form)
            for _ in range(3 if torch.cuda.is_available() else 1):
                function()
            calls = 1
            while (seconds := self.seconds(function, calls)) < LEAST_SECONDS:
                calls = max(calls + 1, int(calls * min(8, 1.2 * LEAST_SECONDS / max(seconds, 1e-6))))
        return function, trips, calls, made

    @staticmethod
    def seconds(function, calls):
        """Of `calls` in a row on the device; one before them brings the device up."""
        if not torch.cuda.is_available():
            begin = time.perf_counter()
            for _ in range(calls):
                function()
            return time.perf_counter() - begin
        function()
        begin, end = torch.cuda.Event(True), torch.cuda.Event(True)
        begin.record()
        for _ in range(calls):
            function()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e-3

    def time(self, request):
        function, trips, calls, made = self.ready[request["network"], request["form"], request["tf32"]]
        allow_tf32(request["tf32"])  # what no graph has recorded asks again
        with torch.no_grad() if made.inference else torch.enable_grad():
            return {"seconds": self.seconds(function, calls) / (calls * trips)}

    def forget(self, request):
        for key in [key for key in self.ready if key[0] == request["network"]]:
            del self.ready[key]
        torch.cuda.empty_cache()
        return {}


def too_long(*_):
    raise TimeoutError("not ready in the time allowed")


def broken():
    """Whether the device has failed for this process, as it does for good after a faulty access."""
    if MISSING is not None or not torch.cuda.is_initialized():
        return False
    try:
        torch.cuda.synchronize()
    except Exception:
        return True
    return False


def main():
    signal.signal(signal.SIGALRM, too_long)
    rivals = Rivals()
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(rivals, request["do"])(request)
        except Exception as problem:
            answer = {"error": f"{type(problem).__name__}: {problem}".splitlines()[0]}
            if broken():
                answer["broken"] = True
        print(json.dumps(answer), file=ANSWERS, flush=True)
        if "broken" in answer:
            os._exit(3)  # what libraries do at an end fails too


if __name__ == "__main__":
    main()
