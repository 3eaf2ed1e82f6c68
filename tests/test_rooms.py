"""The rules between the rooms that imports alone do not show; `lint-imports` checks the others."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from support.parsed import parsed

ROOT = Path(__file__).parents[1]
PLUGINS = sorted(path.parent for path in ROOT.glob("plugins/*/citelock_*/__init__.py"))
MEASURING = [ROOT / "evals" / "evaluation", ROOT / "evals" / "reports"]
ROOMS = [*MEASURING, ROOT / "rag_assets", ROOT / "rag_serving", *PLUGINS]
MODULES = sorted(path for room in ROOMS for path in room.rglob("*.py"))
NETWORK = {"httpx", "requests", "socket", "ollama", "chromadb", "atlassian", "aiohttp", "urllib.request", "http.client"}
MAY_CONNECT = (
    "rag_serving/access/bounded_fetch.py",
    "rag_serving/models/",
    "rag_serving/indexes/",
    "rag_assets/sources/",
    "rag_assets/monitoring/alerts.py",
    "plugins/scale/citelock_scale/object_home/",
    "plugins/stores/",
)
SUFFIXES = (".md", ".toml", ".yaml", ".json", ".txt", ".checks")  # files, and a group of entry points
OPENS_FILES = {"open", "read_text", "write_text", "read_bytes", "write_bytes", "unlink", "mkdir", "rename"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return a module and everything in it; each file is read once."""
    return tuple(ast.walk(parsed(path.read_text(encoding="utf-8"))))


def dotted(path: Path) -> str:
    """Return the name by which a module is imported."""
    name = re.sub(r"^plugins/\w+/", "", name_of(path))[: -len(".py")]
    return name.replace("/", ".").removesuffix(".__init__")


DOTTED = {path: dotted(path) for path in MODULES}
SERVING = [path for path in MODULES if "rag_serving" in path.parts or DOTTED[path].startswith(
    ("citelock_governance", "citelock_scale.object_home",
     *(f"citelock_stores.{name}" for name in ("command", "postgres", "qdrant", "remote")))
)]  # fmt: skip


def imports_of(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def calls_of(path: Path) -> Iterator[str]:
    for node in nodes_of(path):
        if isinstance(node, ast.Call):
            yield getattr(node.func, "attr", getattr(node.func, "id", ""))


def only_found(found: dict[Path, set[str]]) -> dict[str, set[str]]:
    """Return what was found, by the names of the modules in which anything was."""
    return {name_of(path): names for path, names in found.items() if names}


def test_only_models_indexes_sources_and_alerts_open_sockets() -> None:
    elsewhere = [path for path in MODULES if not name_of(path).startswith(MAY_CONNECT)]
    assert 300 < len(elsewhere) < len(MODULES)
    found = {
        path: {name for name in imports_of(path) if name in NETWORK or name.split(".")[0] in NETWORK}
        for path in elsewhere
    }
    assert only_found(found) == {}


def test_steps_touch_no_file() -> None:
    readers = re.compile(r"citelock_(?:formats(?!\.ocr)|sites)\b")
    steps = [path for path in MODULES if name_of(path).startswith("rag_assets/steps/") or readers.match(DOTTED[path])]
    assert len(steps) > 50
    assert only_found({path: OPENS_FILES & set(calls_of(path)) for path in steps}) == {}
    files = {"os", "pathlib", "shutil", "tempfile", "sqlite3"}
    assert only_found({path: files & set(imports_of(path)) for path in steps}) == {}


def test_nothing_is_pickled() -> None:
    picklers = {"pickle", "joblib", "dill", "shelve", "multiprocessing.connection"}
    assert only_found({path: picklers & set(imports_of(path)) for path in MODULES}) == {}


def test_serving_runs_without_dagster_and_without_the_assets() -> None:
    """Every module that serves, imported in a fresh interpreter; torch must not come along either."""
    modules = [DOTTED[path] for path in SERVING]
    code = f"import sys\nfor name in {modules}: __import__(name)\nprint(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"dagster", "evals", "rag_assets", "torch"} & set(run.stdout.split())


def test_every_serving_module_serves() -> None:
    """What no serving process can import is of use to the writer alone and belongs to the other package."""
    modules = {name: path for path, name in DOTTED.items()}
    reached, waiting = set(), ["rag_serving.api.app", "rag_serving.cli.main", "rag_serving.rerank_service.command"]
    waiting += [DOTTED[path] for path in SERVING if "plugins" in path.parts]
    while waiting:
        name = waiting.pop()
        if name in modules and name not in reached:
            reached.add(name)
            waiting += [*names_in(modules[name]), name.rpartition(".")[0]]
    assert not {name for name in modules if name.startswith("rag_serving.")} - reached


def test_a_charter_names_modules_that_exist() -> None:
    assert only_found({path: unknown_in_charter(path) for path in MODULES}) == {}


def unknown_in_charter(path: Path) -> set[str]:
    """Return what a charter names that does not exist.

    In brackets after "Does not belong here" stands where it belongs: a module as seen from here, or a suffix.
    """
    module = nodes_of(path)[0]
    assert isinstance(module, ast.Module)
    charter = (ast.get_docstring(module) or "").partition("Does not belong here")[2]
    brackets = re.findall(r"\(([^()]*`[^()]*)\)", charter.split("\n\n")[0])
    names = {name for text in brackets for name in re.findall(r"`([a-z_][\w.]*)`", text)}
    return {name for name in names if not name.endswith(SUFFIXES) and not is_module(name, path)}


def is_module(name: str, path: Path) -> bool:
    """Return whether a name is of a room or module, as seen from `path` or the end of one, or defined in one."""
    *room, last = name.split(".")
    if not room and any(_in_folder(last, folder) for folder in path.parents if ROOT in (folder, *folder.parents)):
        return True
    if room and _ending(name):
        return True
    homes = _ending(".".join(room)) if room else [path]
    return any(last in {getattr(node, "name", None) for node in nodes_of(home)} for home in homes)


def _in_folder(name: str, folder: Path) -> bool:
    return (folder / name).is_dir() or (folder / f"{name}.py").is_file()


def _ending(name: str) -> list[Path]:
    """Return the modules and rooms whose dotted names end with this one."""
    return [path for path, full in DOTTED.items() if f".{full}".endswith(f".{name}")]


def test_serving_imports_no_library_of_the_writer() -> None:
    """A serving machine installs the base alone, and Chroma and Ollama by extras of their own; what is imported inside
    functions counts, too."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    lines = [line for line in extras["assets"] if line not in extras["chroma"] + extras["ollama"]]
    for name in ("formats", "sites"):
        own = tomllib.loads((ROOT / "plugins" / name / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        lines += [line for line in own["dependencies"] if not line.startswith("citelock")]
    written = {canonicalize_name(Requirement(line).name) for line in lines}
    providers = packages_distributions()
    for path in SERVING:
        roots = {name.partition(".")[0] for name in imports_of(path)}
        used = {canonicalize_name(name) for root in roots for name in providers.get(root, ())}
        assert not used & written, name_of(path)


def names_in(path: Path) -> Iterator[str]:
    """Yield what a module imports, wherever it does, and the modules that it names in strings (`module:function`)."""
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value.partition(":")[0]


def test_what_joins_the_command_on_a_serving_machine_needs_no_dagster() -> None:
    files = [ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")]
    points = [tomllib.loads(file.read_text(encoding="utf-8"))["project"]["entry-points"] for file in files]
    executors = {"citelock.executors"}  # of Dagster
    groups = [group for of_project in points for name, group in of_project.items() if name not in executors]
    modules = [target.partition(":")[0] for group in groups for target in group.values()]
    assert {"rag_assets.build.command", "rag_assets.readers", "rag_assets.monitoring.source_health"} <= set(modules)
    code = f"import sys\nsys.modules['dagster'] = None\nfor name in {modules}: __import__(name)"
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0


def test_the_doctor_of_a_serving_machine_tells_of_syncs_without_what_asks_sources() -> None:
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('dagster', 'requests', 'urllib3')));"
        "import rag_assets.monitoring.source_health"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, cwd=ROOT).returncode == 0


def test_what_is_no_code_is_packaged_with_it() -> None:
    packaged: dict[str, list[str]] = {}
    for project in (ROOT / "pyproject.toml", *ROOT.glob("plugins/*/pyproject.toml")):
        packaged |= tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["setuptools"].get("package-data", {})
    for path in (path for room in ROOMS for path in room.rglob("*") if path.is_file()):
        folder = next(folder for folder in path.parents if (folder / "__init__.py").exists())
        patterns = packaged.get(dotted(folder / "__init__.py"), [])
        is_code = path.suffix == ".py" or path.parent.name == "__pycache__"  # where others may be writing just now
        assert is_code or any(path.match(pattern) for pattern in patterns), name_of(path)


QUESTION_PATH = ("pipeline/", "access/", "query/", "retrieval/", "answering/", "receipts/", "indexes/")
MOST_PARAMETERS = 5


def parameters_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    arguments = function.args
    listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return [argument.arg for argument in listed if argument.arg not in ("self", "cls")]


def too_many_parameters(source: str) -> list[str]:
    """Functions of a module that take more than `MOST_PARAMETERS`, each with what it takes."""
    return [
        f"{node.name}({', '.join(taken)})"
        for node in ast.walk(parsed(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and len(taken := parameters_of(node)) > MOST_PARAMETERS
    ]


def test_no_function_in_a_question_s_path_takes_more_than_five_parameters() -> None:
    paths = [path for path in MODULES if name_of(path).removeprefix("rag_serving/").startswith(QUESTION_PATH)]
    assert len(paths) > 50
    found = {name_of(path): too_many_parameters(path.read_text(encoding="utf-8")) for path in paths}
    assert {name: functions for name, functions in found.items() if functions} == {}


def test_a_function_of_six_parameters_is_noticed() -> None:
    assert too_many_parameters("class A:\n def f(self, a, b, c, /, d, *, e, f=1): ...") == ["f(a, b, c, d, e, f)"]
    assert too_many_parameters("def f(a, b, c, d, *, e, **more): ...") == []


def test_no_test_imports_a_test() -> None:
    tests = {path.stem: path.read_text(encoding="utf-8") for room in ("tests", "plugins")
             for path in (ROOT / room).rglob("test_*.py")}  # fmt: skip
    assert len(tests) > 200
    imports = re.compile(r"^(?:from|import) (?:[a-z_]+\.)*(test_\w+)", re.MULTILINE)
    found = {name: set(imports.findall(text)) & tests.keys() - {name} for name, text in tests.items()}
    assert {name: used for name, used in found.items() if used} == {}
