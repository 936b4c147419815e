"""The two orders of summation (isa/README.md): dot products and reductions."""

import numpy as np

from .fused import fma

BLOCK, SEGMENT = 64, 64  # k per block, blocks per segment
TILE, PARTIALS = 1024, 32


def dot(a, b):
    """a [..., M, K] times b [..., K, N] in C (f32 or f64): batch axes already equal."""
    batch, (m, n), k = a.shape[:-2], (a.shape[-2], b.shape[-1]), a.shape[-1]
    if k == 0:
        return np.zeros(batch + (m, n), a.dtype)
    # All blocks at once: step j takes element j of every block that has one.
    blocks = -(-k // BLOCK)
    sums = np.zeros((blocks,) + batch + (m, n), a.dtype)
    for j in range(min(BLOCK, k)):
        ks = range(j, k, BLOCK)
        left = np.moveaxis(a[..., :, ks], -1, 0)[..., :, None]
        right = np.moveaxis(b[..., ks, :], -2, 0)[..., None, :]
        sums[: len(ks)] = fma(left, right, sums[: len(ks)])
    return left_fold([left_fold(sums[s : s + SEGMENT]) for s in range(0, blocks, SEGMENT)])


def left_fold(terms):
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def reduce_in_order(x, combine):
    """The reduction order along axis 0 of x [n, ...], n > 0; combine(a, b) is the operation."""
    while True:
        n = x.shape[0]
        if n == 1:
            return x[0]
        tiles = -(-n // TILE)
        padded = np.zeros((tiles * TILE,) + x.shape[1:], x.dtype)
        padded[:n] = x
        padded = padded.reshape((tiles, TILE // PARTIALS, PARTIALS) + x.shape[1:])
        present = (np.arange(tiles * TILE) < n).reshape(tiles, TILE // PARTIALS, PARTIALS)
        shape = (tiles, PARTIALS) + (1,) * (x.ndim - 1)
        partials, have = padded[:, 0], present[:, 0].reshape(shape)
        for row in range(1, TILE // PARTIALS):
            there = present[:, row].reshape(shape)
            partials = np.where(there, combine(partials, padded[:, row]), partials)
        width = PARTIALS // 2
        while width:
            there = have[:, width : 2 * width]
            partials = np.where(
                there,
                combine(partials[:, :width], partials[:, width : 2 * width]),
                partials[:, :width],
            )
            have = have[:, :width]
            width //= 2
        x = partials[:, 0]


def sum_in_order(x):
    """Along axis 0; of nothing +0."""
    if x.shape[0] == 0:
        return np.zeros(x.shape[1:], x.dtype)
    return reduce_in_order(x, lambda a, b: a + b)
