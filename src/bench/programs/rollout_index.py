"""The tool server's knowledge of the code: what a language server keeps of the files an agent has opened. Syntax trees
come from parso, the error-tolerant, incremental parser below jedi and the language servers built on it."""

import parso
from parso.tree import Leaf

from rollout_digest import digest

DEFINITIONS = ("classdef", "funcdef")


class OpenFile:
    """A file as the agent last saw it."""

    def __init__(self, path: str, text: str, tree):
        self.path = path
        self.text = text
        self.tree = tree
        self.lines = text.splitlines()
        #: (kind, qualified name, line, parameters) in the order of the file
        self.symbols = list(symbols(tree, ""))
        #: name -> [(line, column)]
        self.uses = {
            name: [tuple(use.start_pos) for use in uses] for name, uses in sorted(tree.get_used_names().items())
        }

    def digest(self) -> str:
        """Of every leaf of the tree, and of what was derived from it."""
        return digest(self.tree.get_code(), *(map(repr, self.symbols)), *(f"{n}{u}" for n, u in self.uses.items()))


def symbols(node, scope: str):
    for child in node.children:
        if isinstance(child, Leaf):
            continue
        if child.type in DEFINITIONS:
            name = f"{scope}.{child.name.value}" if scope else child.name.value
            parameters = []
            if child.type == "funcdef":
                parameters = [p.name.value for p in child.get_params()]
            yield child.type, name, child.start_pos[0], parameters
            yield from symbols(child, name)
        else:
            yield from symbols(child, scope)


class CodeIndex:
    def __init__(self):
        self.grammar = parso.load_grammar()
        self.files: dict[str, OpenFile] = {}

    def open(self, path: str) -> OpenFile:
        """Parses the file, or the part of it that has changed since it was parsed last."""
        with open(path, encoding="utf-8") as file:
            text = file.read()
        known = self.files.get(path)
        if known is None or known.text != text:
            # `diff_cache` parses again what differs from the tree that parso keeps for this path.
            tree = self.grammar.parse(text, path=path, diff_cache=True)
            known = self.files[path] = OpenFile(path, text, tree)
        return known

    def errors(self, path: str) -> list:
        found = self.grammar.iter_errors(self.open(path).tree)
        return [[error.start_pos[0], error.message] for error in found]

    def references(self, name: str, paths: list) -> dict:
        """Where `name` is used in these files, each with the innermost definition around it."""
        found = {}
        for path in paths:
            file = self.open(path)
            places = file.uses.get(name, ())
            if places:
                found[path] = [[line, self.around(file, line)] for line, _ in places]
        return found

    def around(self, file: OpenFile, line: int) -> str:
        scope = ""
        for _, name, start, _ in file.symbols:
            if start > line:
                break
            scope = name
        return scope

    def digest(self) -> str:
        return digest(*(f"{path} {file.digest()}" for path, file in sorted(self.files.items())))
