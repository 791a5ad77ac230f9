"""What the checks share: where the tree is, and C text without a parser.

Every check is called as `check.py [ROOT]`, prints one line per fault, or one
line that begins with `ok:` and says how much was looked at, and exits 1, or 0.
A check that finds nothing to look at fails: it would be green for ever.
"""
import pathlib
import re
import sys

SKIP = 77  # exit code: the tool or the build that the check needs is missing

_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.S)
_BLANK = re.compile(r"[^\n]")


def root():
    """The checkout to look at: the first argument, else the one we are in."""
    if len(sys.argv) > 1:
        return pathlib.Path(sys.argv[1]).resolve()
    return pathlib.Path(__file__).resolve().parents[2]


def finish(bad, ok):
    """`bad` is a list of faults, `ok` what to say when it is empty."""
    print("\n".join(bad) or f"ok: {ok}")
    sys.exit(1 if bad else 0)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def sources(top, *folders, suffixes=(".c", ".h")):
    """Files below top/folder, sorted; a folder may be missing."""
    return sorted(path for folder in folders
                  for path in (top / folder).rglob("*")
                  if path.suffix in suffixes and path.is_file())


def split(text, keep_strings=False):
    """C text -> (the same text with comments blanked, [(line, line, comment)]).

    Line numbers start at 0 and stay what they were. Strings lose what is
    between their quotes unless they are kept.
    """
    comments = []

    def blank(match):
        token = match[0]
        if token[0] == "/":
            first = text.count("\n", 0, match.start())
            comments.append((first, first + token.count("\n"),
                             " ".join(token.strip("/").strip("*").split())))
            return _BLANK.sub(" ", token)
        return token if keep_strings else token[0] + \
            _BLANK.sub(" ", token[1:-1]) + token[-1]

    return _TOKEN.sub(blank, text), comments


def without_directives(code):
    """Blanks preprocessor lines, with their continuations."""
    return re.sub(r"^[ \t]*#(?:\\\n|[^\n])*",
                  lambda m: _BLANK.sub(" ", m[0]), code, flags=re.M)


_EXPORT = re.compile(r"\bTROUPE_API\b[^;{]*?\b(troupe_\w+)\s*\(", re.S)
_INLINE = re.compile(r"\bstatic\s+inline\b[^;{]*?\b(troupe_\w+)\s*\(", re.S)
_MACRO = re.compile(r"^#\s*define\s+(troupe_\w+)\(", re.M)


def public_functions(top):
    """{name: (header, kind)}, kind = export, inline or macro."""
    found = {}
    for path in sources(top, "include", suffixes=(".h",)):
        code, _ = split(path.read_text())
        bare = without_directives(code)
        for kind, regex, where in (("export", _EXPORT, bare),
                                   ("inline", _INLINE, bare),
                                   ("macro", _MACRO, code)):
            for name in regex.findall(where):
                if name != "troupe_init_options":  # TROUPE_INIT in C++
                    found[name] = (path.name, kind)
    return found
