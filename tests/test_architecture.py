"""The rules of the house that a program can check."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("loadgen", "targets", "engines", "results")
FILES = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
HEAVY = ("torch", "locust", "gevent", "numpy", "scipy", "pandas", "plotly", "pyarrow")
LONGEST_FILE_LINES = 350
LONGEST_FUNCTION_LINES = 40
TORCH_FILES = {
    "engines/attention.py",
    "engines/batch_invariant.py",
    "engines/fused_layers.py",
    "engines/joint_prefill.py",
    "engines/kv_cache.py",
    "engines/padded_forward.py",
    "engines/ragged_decode.py",
    "engines/sampling.py",
    "engines/tinygpt.py",
    "engines/torch_executor.py",
}
UNITS = (
    "_ns", "_ps", "_us", "_ms", "_s", "_tokens", "_rps", "_bytes", "_fraction", "_slots", "_requests", "_steps",
    "_rows", "_ratio", "_share", "_id", "_step", "_per_poll", "_eps", "_theta",
)  # fmt: skip
UNITLESS = {
    # counts that are their own unit
    "slots", "steps", "requests", "rows", "tokens", "count", "users", "limit", "loop", "batch", "window", "until",
    "copies", "columns", "usual", "least", "most", "shortest", "repeats", "interval_repeats", "shards", "processes",
    "max_concurrency", "stop_after_failures",
    # ids, seeds and indices
    "seed", "slot", "position", "side", "pair", "number", "index", "at", "line", "layer", "first", "last", "other",
    "place", "i", "low", "high", "order", "repeat", "rank", "request_class",
    # in the clock's own unit
    "step_start", "step_end",
    # dimensionless by nature
    "q", "cv", "speed", "temperature", "value", "rate", "vocabulary", "signal_number", "floor", "state",
    # options of the transformer, in the field's own words
    "threads", "context", "pad", "layers", "width", "heads", "kv_heads", "head_dim", "ffn",
    # of models and machines, in the field's own words
    "matrices", "experts", "active_experts", "tp", "blocks", "replicas", "prefill_replicas",
    "decode_replicas", "devices", "most_devices",
    # in whatever somebody pays with
    "price_per_h",
    # in the unit that stands beside them
    "text", "ours", "round_weights", "counted_weights",
    # of statistics: counts, and values in the unit of what they are statistics of
    "pairs", "needed", "sides", "families", "freedom", "ratio", "centre", "spread", "effect",
    "shift", "margin", "threshold",
    # of HTTP: codes, ports, and counts of connections, events and reads
    "http_status", "port", "session", "connections", "prewarm", "prewarm_at_once", "peak", "connection_reused",
    "resends", "reasoning_events", "content_reads",
    # durations whose type says the unit
    "max_wait", "decode_base", "decode_row", "prefill_base", "prefill_token", "decode_kv",
}  # fmt: skip


def run(*command: str) -> None:
    """Fails with what the command printed."""
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_and_functions_stay_small(path: Path) -> None:
    """A file is read on a few screens, a function on one."""
    text = path.read_text()
    assert text.count("\n") <= LONGEST_FILE_LINES
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < LONGEST_FUNCTION_LINES, node.name


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_is_called_like_one_of_the_standard_library(path: Path) -> None:
    """A module's name does not shadow a standard one."""
    assert path.stem in ("__init__", "__main__") or path.stem not in sys.stdlib_module_names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_numbers_carry_their_units(path: Path) -> None:
    """Every number among fields and parameters says its unit in its name, or is exempt by name."""
    for name in _number_names(ast.parse(path.read_text())):
        assert name.strip("_") in UNITLESS or name.rstrip("_").endswith(UNITS), name


def _number_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and _is_number(node.annotation):
            yield node.target.id
        elif isinstance(node, ast.arg) and node.annotation is not None and _is_number(node.annotation):
            yield node.arg


def _is_number(annotation: ast.expr) -> bool:
    return ast.unparse(annotation) in ("int", "float", "int | None", "float | None")


def test_torch_is_imported_by_the_transformer_alone() -> None:
    """Everything else works without torch."""
    for path in FILES:
        imports = {
            name.partition(".")[0]
            for node in ast.walk(ast.parse(path.read_text()))
            for name in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        if "torch" in imports:
            assert str(path.relative_to(ROOT)) in TORCH_FILES


def test_the_command_line_imports_nothing_heavy() -> None:
    """`tokenload --help` and every command's help answer without numpy, pandas or torch."""
    check = (
        "import sys; from click.testing import CliRunner; from loadgen.cli import COMMANDS, main\n"
        "for words in ([], *([name] for name in COMMANDS)):\n"
        "    assert CliRunner().invoke(main, [*words, '--help']).exit_code == 0\n"
        f"loaded = set({HEAVY!r}) & set(sys.modules)\n"
        "assert not loaded, loaded"
    )
    run("-c", check)


def test_nothing_imports_in_a_circle() -> None:
    """The graph of imports inside the project has no cycle."""
    graph = grimp.build_graph(*PACKAGES, include_external_packages=False, exclude_type_checking_imports=True)
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path, module))
        if module not in done:
            for imported in graph.find_modules_directly_imported_by(module):
                visit(imported, (*path, module))
            done.add(module)

    for module in graph.modules:
        visit(module, ())


def test_the_staircase_holds() -> None:
    """A floor imports only the floors below it."""
    run("-c", "import sys; from importlinter.cli import lint_imports_command as c; sys.argv = ['x']; c()")


def test_lint_is_clean() -> None:
    """ruff has nothing to say."""
    run("-m", "ruff", "check", ".")


def test_types_are_strict() -> None:
    """mypy --strict has nothing to say."""
    run("-m", "mypy")


def test_no_path_or_address_of_a_machine_is_in_the_repository() -> None:
    """The project speaks of itself alone."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = tracked.stdout.split() if tracked.returncode == 0 else []
    marks = ["/" + "work/", "/" + "root/", "pypi" + ".org", "files.python" + "hosted"]
    for name in names:
        text = (ROOT / name).read_bytes().decode(errors="ignore") if (ROOT / name).is_file() else ""
        assert not [mark for mark in marks if mark in text], name
