"""Group 4: Python, packages, the C library and the kernel; torch and numpy only where they are loaded already."""

import platform
import sys
from collections.abc import Callable
from typing import Any

from results.stamp import packages
from results.stamp.canonical import Json, sha256_of
from results.stamp.facts import INFO, Fact
from results.stamp.interpreter import garbage_collection, interpreter, libc, numeric_libraries
from results.stamp.kernel import MissingError, text
from results.stamp.surroundings import Surroundings


def _loaded(name: str, read: Callable[[Any], Any]) -> Callable[[Surroundings], Any]:
    """A reader of a module that has been imported; it is not imported for the sake of the stamp."""

    def reader(here: Surroundings) -> Any:
        module = here.modules.get(name)
        if module is None:
            raise MissingError(f"NOT_LOADED: {name}")
        return read(module)

    return reader


def _packages(here: Surroundings) -> dict[str, str | None]:
    return packages.installed(packages.entries(here.search_path, here.cwd))


def _collisions(here: Surroundings) -> list[Json]:
    return list(packages.collisions(packages.entries(here.search_path, here.cwd), here.program, here.cwd))


def _blas(numpy: Any) -> Json:
    found = numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {name: found.get(name) for name in ("name", "version", "openblas configuration")}


def _determinism(torch: Any) -> Json:
    return {
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
        "cudnn_deterministic": torch.backends.cudnn.deterministic,
        "cudnn_benchmark": torch.backends.cudnn.benchmark,
        "float32_matmul_precision": torch.get_float32_matmul_precision(),
    }


def _container(here: Surroundings) -> str:
    """What says that there is one; kernel and files tell no image's digest."""
    for mark, name in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
        if (here.root / mark).exists():
            return name
    raise MissingError("NO_FILE: /.dockerenv, /run/.containerenv")


def _not_told(reason: str) -> Callable[[Surroundings], Any]:
    def reader(here: Surroundings) -> Any:
        raise MissingError(reason)

    return reader


FACTS: dict[str, Fact] = {
    "python_version": Fact(lambda here: platform.python_version()),
    "python_implementation": Fact(lambda here: platform.python_implementation()),
    "python_build": Fact(lambda here: list(platform.python_build()), INFO),
    "python_compiler": Fact(lambda here: platform.python_compiler()),
    "python_optimised": Fact(lambda here: interpreter(here.modules).optimised),
    "python_debug_build": Fact(lambda here: interpreter(here.modules).debug_build),
    "python_watchers": Fact(lambda here: interpreter(here.modules).watchers),
    "thread_switch_interval_s": Fact(lambda here: sys.getswitchinterval()),
    "garbage_collection": Fact(lambda here: garbage_collection(), INFO),
    "packages": Fact(_packages),
    "packages_sha256": Fact(lambda here: sha256_of(_packages(here))),
    "package_collisions": Fact(_collisions),
    "torch_version": Fact(_loaded("torch", lambda torch: str(torch.__version__))),
    "torch_threads": Fact(_loaded("torch", lambda torch: torch.get_num_threads())),
    "torch_interop_threads": Fact(_loaded("torch", lambda torch: torch.get_num_interop_threads())),
    "torch_build": Fact(_loaded("torch", lambda torch: torch.__config__.show().splitlines())),
    "torch_cpu_capability": Fact(_loaded("torch", lambda torch: torch.backends.cpu.get_cpu_capability())),
    "torch_onednn": Fact(_loaded("torch", lambda torch: torch.backends.mkldnn.enabled)),
    "torch_determinism": Fact(_loaded("torch", _determinism)),
    "numpy_blas": Fact(_loaded("numpy", _blas)),
    "numeric_libraries": Fact(lambda here: numeric_libraries(text(here.root, "proc/self/maps")), INFO),
    "uvloop_loaded": Fact(lambda here: "uvloop" in here.modules, INFO),
    "libc": Fact(lambda here: libc()),
    "kernel": Fact(lambda here: f"{platform.system()} {platform.release()} {platform.machine()}"),
    "kernel_build": Fact(lambda here: platform.version(), INFO),
    "container": Fact(_container, INFO),
    "container_image_digest": Fact(_not_told("NOT_OBSERVABLE: not told to what runs inside"), INFO),
}
AS_IS = ("packages",)
"""Names of other people's packages, which may sound like secrets, and versions."""
