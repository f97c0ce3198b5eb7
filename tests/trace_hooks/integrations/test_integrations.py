"""The callbacks of frameworks are imported when a script asks for them, and not before."""

from __future__ import annotations

import subprocess
import sys

import pytest

import trace_hooks as th
from tests.folders import REPO
from trace_hooks import integrations


def test_importing_the_hooks_imports_no_framework_and_no_callback() -> None:
    code = (
        "import sys, trace_hooks\n"
        "print([n for n in sys.modules if n.split('.')[0] in ('torch', 'transformers', 'lightning')"
        " or n.startswith('trace_hooks.integrations')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_a_missing_framework_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)  # as if it were not installed
    monkeypatch.delitem(sys.modules, "trace_hooks.integrations.hf", raising=False)
    with pytest.raises(
        ImportError, match=r"^trace_hooks\.hf needs transformers \(.*\); install it"
    ):
        th.hf  # noqa: B018


def test_another_name_is_an_attribute_error() -> None:
    assert not hasattr(th, "jax")
    assert "jax" not in integrations.FRAMEWORKS
