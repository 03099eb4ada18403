"""A test that asserts the absence of words which nothing says (any more) cannot fail. Looks at every assertQuietOn() of
tests/e2e: the longest piece of plain words in each pattern must stand in a string of the product or of tests/workers.
Standard library only."""
import ast
import re

STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')
JOINED = re.compile(r'"\s*\n\s*"')  # one string over several lines


def said_by(sources):
    """All strings of C++ sources, a line each."""
    return "\n".join(text for source in sources for text in STRING.findall(JOINED.sub("", source)))


def longest_words(pattern):
    pieces = re.split(r"[^A-Za-z' -]+", re.sub(r"\\[a-zA-Z]", "\n", pattern))
    return max((piece.strip() for piece in pieces), key=len)


def stale(name, text, said):
    """(line, words) for every pattern of a test's file that nothing says."""
    for node in ast.walk(ast.parse(text, name)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "assertQuietOn":
            for pattern in node.args[1:]:
                if isinstance(pattern, ast.Constant) and longest_words(pattern.value) not in said:
                    yield pattern.lineno, longest_words(pattern.value)


def self_test():
    """What is wrong with this file; empty when all is well."""
    said = said_by(['say("one that is "\n    "still there");\n// "not" said', 'fmt::format("generation {}: {} ranks", a, b)'])
    text = 'self.assertQuietOn(done, "is still there", r"\\bgeneration [34]: ")\nself.assertQuietOn(done, "restarts anew")\n'
    found = list(stale("x.py", text, said))
    return [] if found == [(2, "restarts anew")] else [f"negatives: found {found}"]
