#!/usr/bin/env python3
"""Derives every polynomial coefficient of isa/semantics and prints it as a hex float.

    pip install mpmath && python3 tests/accuracy/coefficients.py [name]

Each polynomial is the weighted minimax fit (Remez exchange in 70-digit arithmetic) of the
function named beside it; the weight turns the fit's error into the relative error of the
result, so the figure printed is what the polynomial adds to the error of the function before
rounding. Coefficients are then rounded to the type and polished by single ulps; the error printed is
measured after that.
"""
import struct
import sys
from mpmath import mp, mpf

mp.dps = 70


def remez(f, w, a, b, degree, rounds=8, grid=600):
    """Minimax p of the given degree: min max |w(x) (f(x) - p(x))| on [a, b]."""
    n = degree + 2
    mid, half = (a + b) / 2, (b - a) / 2
    nodes = sorted(mid + half * mp.cos(mp.pi * (2 * i + 1) / (2 * n)) for i in range(n))
    pts = sorted(mid + half * mp.cos(mp.pi * i / grid) for i in range(grid + 1))
    fv, wv = [f(x) for x in pts], [w(x) for x in pts]
    p = None
    for _ in range(rounds):
        m = mp.matrix(n, n)
        rhs = mp.matrix(n, 1)
        for i, x in enumerate(nodes):
            for j in range(degree + 1):
                m[i, j] = ((x - mid) / half) ** j
            m[i, degree + 1] = (-1) ** i / w(x)
            rhs[i] = f(x)
        sol = mp.lu_solve(m, rhs)
        p = [sol[j] for j in range(degree + 1)]
        err = [wv[i] * (fv[i] - poly(p, (x - mid) / half)) for i, x in enumerate(pts)]
        # one extremum per run of equal sign, the largest n runs in order
        runs, cur = [], 0
        for i in range(1, len(pts)):
            if err[i] * err[i - 1] < 0:
                runs.append(cur)
                cur = i
            elif abs(err[i]) > abs(err[cur]):
                cur = i
        runs.append(cur)
        while len(runs) > n:
            runs.pop(0 if abs(err[runs[0]]) < abs(err[runs[-1]]) else -1)
        if len(runs) < n:
            break
        nodes = [pts[i] for i in runs]
        if max(abs(err[i]) for i in runs) / min(abs(err[i]) for i in runs) < 1.001:
            break
    # back from the scaled variable u = (x - mid) / half to x
    out = [mpf(0)] * (degree + 1)
    power = [mpf(1)]
    for j in range(degree + 1):
        for i, c in enumerate(power):
            out[i] += p[j] * c
        nxt = [mpf(0)] * (len(power) + 1)
        for i, c in enumerate(power):
            nxt[i] -= c * mid / half
            nxt[i + 1] += c / half
        power = nxt
    return out


def poly(c, x):
    r = mpf(0)
    for v in reversed(c):
        r = r * x + v
    return r


def round_to(v, bits):
    """v to the nearest binary32 (bits 24) or binary64 (bits 53)."""
    if v == 0:
        return mpf(0)
    e = mp.floor(mp.log(abs(v), 2)) + 1
    s = mpf(2) ** (bits - e)
    return mp.nint(v * s) / s


def hexf(v, bits):
    s = float(v).hex()
    if bits == 24:
        assert struct.unpack("f", struct.pack("f", float(v)))[0] == float(v)
        mant, exp = s.split("p")
        s = mant.rstrip("0").rstrip(".") + "p" + exp
    return s


def pair(v, bits):
    hi = round_to(v, bits)
    return hi, round_to(v - hi, bits)


def polish(c, bits, pts, err, wts):
    """Moves single coefficients by an ulp while that lowers the greatest error. The error is
    linear in the moves, so it is followed in double relative to its own size."""
    unit = max(abs(e) for e in err)
    err = [float(e / unit) for e in err]
    steps = [mpf(2) ** (mp.floor(mp.log(abs(v), 2)) + 1 - bits) for v in c]
    moves = [[float(-s * w * x ** j / unit) for x, w in zip(pts, wts)] for j, s in enumerate(steps)]
    count = [0] * len(c)
    best, improved = max(map(abs, err)), True
    pairs = [((j, s),) for j in range(len(c)) for s in (1, -1)]
    pairs += [((i, s), (j, t)) for i in range(len(c)) for j in range(i) for s in (1, -1) for t in (1, -1)]
    while improved:
        improved = False
        for trial in pairs:
            new = err
            for j, s in trial:
                new = [e + s * m for e, m in zip(new, moves[j])]
            top = max(map(abs, new))
            if top < best * 0.9999:
                err, best, improved = new, top, True
                for j, s in trial:
                    count[j] += s
    return [v + n * s for v, n, s in zip(c, count, steps)], best * unit


def fit(name, f, w, a, b, degree, bits):
    """Fits, rounds the coefficients (lowest order first) and prints them with the error left."""
    a, b = mpf(a), mpf(b)
    floor = max(w(a), w(b)) / 100  # a weight that vanishes would leave a node without an equation
    c = [round_to(v, bits) for v in remez(f, lambda x: max(w(x), floor), a, b, degree)]
    pts = [a + (b - a) * i / 1000 for i in range(1001)]
    c, err = polish(c, bits, pts, [w(x) * (f(x) - poly(c, x)) for x in pts], [w(x) for x in pts])
    print(f"{name} f{32 if bits == 24 else 64} degree {degree} on [{mp.nstr(a, 8)}, {mp.nstr(b, 8)}]"
          f" error 2^{mp.nstr(mp.log(err, 2), 5)}")
    print("   ", ", ".join(hexf(v, bits) + ("f" if bits == 24 else "") for v in c))
    sys.stdout.flush()


def exp_q(r):
    return (mp.expm1(r) - r) / r ** 2 if abs(r) > mpf(10) ** -25 else mpf(1) / 2 + r / 6


def log_r2(z):  # log((1+s)/(1-s)) = 2 s + s^3 (2/3 + z R2(z)), z = s^2
    if z < mpf(10) ** -12:
        return mpf(2) / 5 + z * 2 / 7 + z * z * 2 / 9
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) - 2 * s - s ** 3 * 2 / 3) / (s ** 3 * z)


def sin_s(z):
    if z < mpf(10) ** -20:
        return -mpf(1) / 6 + z / 120
    r = mp.sqrt(z)
    return (mp.sin(r) - r) / (r * z)


def cos_c(z):
    if z < mpf(10) ** -15:
        return mpf(1) / 24 - z / 720 + z * z / 40320
    return (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z ** 2


def erf_s(z):
    if z == 0:
        return 2 / mp.sqrt(mp.pi) - 1
    r = mp.sqrt(z)
    return mp.erf(r) / r - 1


def erfcx(z):
    return mp.erfc(z) * mp.exp(z * z)


def erfc_p(k):  # erfc z = e^(-z^2) P(t) / (z + k), t = (z - k) / (z + k)
    return lambda t: (lambda z: (z + k) * erfcx(z))(k * (1 + t) / (1 - t))


def tail_p(k):  # 1 - Phi(y) = e^(-y^2/2) P(t) / (y + k), t = (y - k) / (y + k)
    return lambda t: (lambda y: (y + k) * erfcx(y / mp.sqrt(2)) / 2)(k * (1 + t) / (1 - t))


def main(only):
    half_ln2 = mp.log(2) / 2 * mpf("1.0001")
    smax = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1) * mpf("1.00001")) ** 2
    quarter = (mp.pi / 4 * mpf("1.0001")) ** 2
    k32, k64 = mpf(ERFC_K32), mpf(ERFC_K64)
    k_tail = mpf(TAIL_K)
    t = lambda z, k: (mpf(z) - k) / (mpf(z) + k)
    jobs = {
        "exp32": lambda: fit("exp Q", exp_q, lambda r: r * r, -half_ln2, half_ln2, 5, 24),
        "exp64": lambda: fit("exp Q", exp_q, lambda r: r * r, -half_ln2, half_ln2, 11, 53),
        "log32": lambda: fit("log R2", log_r2, lambda z: z * z / 2, 0, smax, 3, 24),
        "log64": lambda: fit("log R2", log_r2, lambda z: z * z / 2, 0, smax, 8, 53),
        "sin32": lambda: fit("sin S", sin_s, lambda z: z, 0, quarter, 3, 24),
        "sin64": lambda: fit("sin S", sin_s, lambda z: z, 0, quarter, 6, 53),
        "cos32": lambda: fit("cos C", cos_c, lambda z: z * z, 0, quarter, 3, 24),
        "cos64": lambda: fit("cos C", cos_c, lambda z: z * z, 0, quarter, 6, 53),
        "erf32": lambda: fit("erf S", erf_s, lambda z: mpf(1), 0, 0.765625, 6, 24),
        "erf64": lambda: fit("erf S", erf_s, lambda z: mpf(1), 0, 0.765625, 13, 53),
        "erfc32": lambda: fit("erfc P", erfc_p(k32), lambda x: 1 / erfc_p(k32)(x), -1, t("10.1", k32), 9, 24),
        "erfc64": lambda: fit("erfc P", erfc_p(k64), lambda x: 1 / erfc_p(k64)(x), -1, t("27.5", k64), 23, 53),
        "tail32": lambda: fit("tail P", tail_p(k_tail), lambda x: 1 / tail_p(k_tail)(x), -1, t("14.4", k_tail), 9, 24),
        "tail64": lambda: fit("tail P", tail_p(k_tail), lambda x: 1 / tail_p(k_tail)(x), -1, t("39.2", k_tail), 23, 53),
    }
    for name, job in jobs.items():
        if not only or name in only:
            print(name, end=": ")
            job()
    if not only or "constants" in only:
        for bits in (24, 53):
            print("constants", bits)
            for name, v, short in (("log2(e)", 1 / mp.log(2), 0), ("ln2", mp.log(2), 0),
                                   ("ln2 (short hi)", mp.log(2), 16 if bits == 24 else 42),
                                   ("2/3", mpf(2) / 3, 0), ("2/pi", 2 / mp.pi, 0),
                                   ("sqrt(1/2)", mp.sqrt(mpf(1) / 2), 0),
                                   ("2/sqrt(pi)", 2 / mp.sqrt(mp.pi), 0),
                                   ("1/sqrt(2pi)", 1 / mp.sqrt(2 * mp.pi), 0),
                                   ("2 sqrt(2/pi)", 2 * mp.sqrt(2 / mp.pi), 0),
                                   ("2 sqrt(2/pi) 0.044715", 2 * mp.sqrt(2 / mp.pi) * mpf("0.044715"), 0),
                                   ("6 sqrt(2/pi) 0.044715", 6 * mp.sqrt(2 / mp.pi) * mpf("0.044715"), 0)):
                hi = round_to(v, short or bits)
                print(f"  {name}: hi {hexf(hi, bits)} lo {hexf(round_to(v - hi, bits), bits)}")
            a = mp.pi / 2
            parts = []
            for _ in range(4):
                parts.append(round_to(a, bits))
                a -= parts[-1]
            print("  pi/2:", ", ".join(hexf(p, bits) for p in parts))
        mp.dps = 500
        bits = int(mp.floor(2 / mp.pi * mpf(2) ** (64 * 20)))
        print("2/pi words:", ", ".join(f"0x{(bits >> (64 * (19 - i))) & (2**64 - 1):016x}" for i in range(20)))
        mp.dps = 70


# The variable of the erfc fit, and of that of the normal tail, is t = (z - K) / (z + K).
ERFC_K32 = 2
ERFC_K64 = 3
TAIL_K = 3.5

if __name__ == "__main__":
    main(set(sys.argv[1:]))
