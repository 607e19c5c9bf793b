"""Kernels of several tests. Each process compiles a source once, with the wheel ziglang."""

from __future__ import annotations

from functools import cache

import devmod

ADD = """
int calls = 0;
void add(const float *a, const float *b, float *c, int n) { for (int i = 0; i < n; i++) c[i] = a[i] + b[i]; calls++; }
int count_calls(void) { return calls; }
void spoil(int *x) { x[0] = *(volatile int *)16; }
void wait_for(volatile int *x) { while (x[0] == 0) ; }
void spin(int *x) { for (;;) ((volatile int *)x)[0]++; }
"""


@cache
def module(source: str = ADD, language: str = "C", *options: str) -> devmod.Module:
    """Return the module of a source for v66."""
    return devmod.compile(source, "hexagon -arch=v66", language=language, options=options)


def new_module() -> devmod.Module:
    """Return a new module with the kernels of ADD."""
    return devmod.loads(devmod.dumps(module()))
