"""A plugin with the name of devmod-trust that keeps what it is asked, for tests of what core does
under a policy.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import each_case
import pytest
from distributions import install

from devmod.errors import TrustError

#: It takes files with the signature b"signed", and payloads without an index unless the variable
#: REFUSE_RAW is set.
CHECKER = """
import os, pluggy
from devmod.errors import TrustError
asked = []
@pluggy.HookimplMarker("devmod")
def devmod_verify(place, package, head, size, signature, policies):
    asked.append((place, package, head, size, signature, policies))
    if policies and (signature != b"signed" if head else "REFUSE_RAW" in os.environ):
        raise TrustError(f"{place} has no signature")
"""


@pytest.fixture
def policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The path of a policy that DEVMOD_TRUST names. The folder of the process is the test's."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "trust.toml"
    path.touch()
    monkeypatch.setenv("DEVMOD_TRUST", str(path))
    return str(path)


@pytest.fixture
def checker(tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module of the plugin."""
    site = tmp_path / "site"
    install(
        site,
        "devmod-trust",
        groups={"devmod.hooks": {"devmod_verify": "the_checker"}},
        modules={"the_checker": CHECKER},
    )
    monkeypatch.syspath_prepend(site)
    if allowed := os.environ.get("DEVMOD_PLUGINS_ALLOW"):
        monkeypatch.setenv("DEVMOD_PLUGINS_ALLOW", f"{allowed},devmod-trust")
    module = __import__("the_checker")
    yield module
    sys.modules.pop("the_checker")


refusal = partial(each_case.refusal, TrustError)
