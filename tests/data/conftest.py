# SPDX-License-Identifier: Apache-2.0
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import workshop  # noqa: E402


@pytest.fixture
def shop(tmp_path, monkeypatch):
    before = {name: sys.modules.pop(name, None) for name in workshop.MODULES}
    made = workshop.Workshop(tmp_path, monkeypatch)
    yield made
    made.close()
    for name, module in before.items():
        sys.modules.pop(name, None)
        if module:
            sys.modules[name] = module
