"""Gates as JUnit XML, the form that CI systems show as tests."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

NOT_XML = re.compile("[^\t\n\r -퟿-�\U00010000-\U0010ffff]")


def junit(suites: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A suite a name, a test a gate: failed with its one line, or passed with it as output.

    A gate is a mapping with `gate`, `passed` and `text`, and `at` where it stands for one of several places.
    """
    root = ElementTree.Element("testsuites")
    for name, gates in suites.items():
        failures = sum(not gate["passed"] for gate in gates)
        told = {"name": clean(name), "tests": str(len(gates)), "failures": str(failures), "errors": "0"}
        suite = ElementTree.SubElement(root, "testsuite", told)
        for gate in gates:
            where = clean(f"{name}.{gate['at']}" if gate.get("at") else name)
            case = ElementTree.SubElement(suite, "testcase", {"name": clean(gate["gate"]), "classname": where})
            if gate["passed"]:
                ElementTree.SubElement(case, "system-out").text = clean(gate["text"])
            else:
                ElementTree.SubElement(case, "failure", {"message": clean(gate["text"]), "type": "gate"})
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text.decode() + "\n"


def clean(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return NOT_XML.sub("�", text)


def suites_of(document: Mapping[str, Any]) -> dict[str, list[Mapping[str, Any]]]:
    """The gates of a comparison, a suite a pair of sides."""
    a = document["a"]["label"]
    return {f"{one['b']['label']} against {a}": list(one["gates"]) for one in document["comparisons"]}
