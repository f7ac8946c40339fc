"""check_sources.py ROOT: rules for our C++ files that clang-format and clang-tidy don't know.

1. Files of one CMake target are compiled several at a time, so no two of them may define the same name in an
   anonymous namespace: which files meet changes whenever a file is added or removed.
2. A mutex is a colla::Mutex and says what it guards, so that clang's -Wthread-safety can check it: its name
   stands in a COLLA_GUARDED_BY, COLLA_REQUIRES or COLLA_EXCLUDES of the same file.
3. A file has at most 500 lines, a public header at most 200.

Prints one line for each finding and ends with 1 if there are any.
"""

import collections
import pathlib
import re
import sys

TARGET = re.compile(r"\b(?:colla_folder|colla_test|add_executable|Python_add_library)\s*\(([^)]*)\)")
ALONE = re.compile(r"\bset_source_files_properties\s*\(([^)]*?)\sPROPERTIES")
# Comments, and texts, which may hold braces; a digit's separator is not a quote.
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'',
                   re.DOTALL)
PREPROCESSOR = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
TYPE = re.compile(r"^(?:struct|class|union|enum(?: class| struct)?)\b(?: \w+\([^)]*\))* (\w+)")
BARE = re.compile(r"^.*\bstd::(?:\w+_)?mutex\s+\w+", re.MULTILINE)
MUTEX = re.compile(r"^[ \t]*(?:mutable )?Mutex (\w+);", re.MULTILINE)


def plain(text):
    return PREPROCESSOR.sub("", NOISE.sub(lambda match: " " if match.group()[0] == "/" else '""', text))


def name_of(declaration, ends_with):
    """What a declaration defines, as the text that must not come twice; None for nothing."""
    text = whole = " ".join(re.sub(r"\[\[.*?\]\]", " ", declaration).split())
    if text.startswith("using "):
        return text if "=" in text else None  # The same alias may come twice.
    before = None
    while before != text:  # Arguments of templates, from the innermost.
        before, text = text, re.sub(r"<[^<>()]*(?:\([^<>()]*\)[^<>()]*)*>", "", text)
    text = re.sub(r"^template\s*(?:requires [^;{]*? )?", "", text).strip()
    if found := TYPE.match(text):
        return found.group(1) if ends_with == "{" else None
    if text.startswith(("static_assert", "extern", "friend", "namespace", "enum")) or "operator" in text:
        return None
    head = text.split("=")[0].strip()
    if "(" not in head:
        found = re.search(r"(\w+)(?:\[\w*\])?$", head)
        return found.group(1) if found and " " in head else None
    found = re.search(r"(?:^|[\s&*])(\w+)\s*\($", head[:head.index("(") + 1])
    if not found or ends_with != "{" or found.group(1).isupper():  # TEST_F and its like.
        return None
    return found.group(1) + parameters_of(whole, found.group(1))


def parameters_of(declaration, name):
    """The types of a function's parameters: functions that differ in them are no collision."""
    begin = re.search(rf"\b{name} ?\(", declaration).end()
    types, depth, start = [], 0, begin
    for position in range(begin, len(declaration)):
        char = declaration[position]
        if depth == 0 and char in ",)":
            parameter = declaration[start:position].split("=")[0].strip()
            types.append(re.sub(r"(?<=[\s&*>])\w+(?:\[\w*\])?$", "", parameter).strip())
            start = position + 1
            if char == ")":
                break
        depth += {"(": 1, "<": 1, "[": 1, ")": -1, ">": -1, "]": -1}.get(char, 0)
    return f"({', '.join(types)})"


def anonymous_names(text):
    """Pairs (namespace, name) that the anonymous namespaces of a file define."""
    names, spaces, start = set(), [], 0
    text = plain(text)
    position = 0
    while position < len(text):
        char = text[position]
        if char in "{;":
            declaration = text[start:position]
            opens = re.search(r"(?:^|\s)(?:inline\s+)?namespace\s*([\w:]*)\s*$", declaration)
            if char == "{" and opens:
                spaces.append(opens.group(1))
            else:
                if "" in spaces and (name := name_of(declaration, char)):
                    names.add(("::".join(spaces), name))
                if char == "{":
                    position = end_of_block(text, position)
                    if not re.match(r"\s*[;,({]", text[position:]) and is_function(declaration):
                        start = position
                        continue
                    # An initialiser or a type: it ends with a semicolon.
                    while position < len(text) and text[position] != ";":
                        position = end_of_block(text, position) if text[position] == "{" else position + 1
            position += 1
            start = position
        elif char == "}":
            if spaces:
                spaces.pop()
            position += 1
            start = position
        else:
            position += 1
    return names


def is_function(declaration):
    text = re.sub(r"<[^<>]*>", "", declaration)
    return "(" in text.split("=")[0] and not re.match(r"\s*(?:template\s*)?(?:struct|class|enum)\b", text)


def end_of_block(text, position):
    depth = 0
    while position < len(text):
        depth += {"{": 1, "}": -1}.get(text[position], 0)
        position += 1
        if depth == 0:
            return position
    return position


def targets(root):
    """Lists of files that are compiled together, with the CMakeLists.txt that says so."""
    for lists in sorted(root.glob("*/**/CMakeLists.txt")):
        if lists.relative_to(root).parts[0].startswith(("build", ".")):
            continue
        cmake = re.sub(r"#.*", "", lists.read_text())
        alone = {word for group in ALONE.findall(cmake) for word in group.split()}
        for words in TARGET.findall(cmake):
            yield [lists.parent / word for word in words.split()
                   if word.endswith(".cc") and word not in alone and (lists.parent / word).exists()]


def collisions(root):
    found = set()
    for files in targets(root):
        places = collections.defaultdict(list)
        for file in files:
            for name in anonymous_names(file.read_text()):
                places[name].append(str(file.resolve().relative_to(root)))
        for (_, name), where in places.items():
            if len(where) > 1 and not name.startswith("using "):
                found.add(f"{where[0]}: {name} is also in the anonymous namespace of {', '.join(where[1:])}")
    return sorted(found)


def bare_mutexes(root):
    found = []
    for file in sorted(file for folder in ("bench", "src") for kind in ("h", "cc")
                       for file in root.glob(f"{folder}/**/*.{kind}")):
        text = re.sub(r"//.*", "", file.read_text())
        where = file.relative_to(root)
        if file.name == "thread_annotations.h":
            continue
        for match in BARE.finditer(text):
            line = text[:match.start()].count("\n") + 1
            found.append(f"{where}:{line}: {match.group().strip()}: use Mutex of base/thread_annotations.h")
        for name in MUTEX.findall(text):
            if not re.search(rf"COLLA_(?:GUARDED_BY|REQUIRES|EXCLUDES)\([^)]*\b{name}\b", text):
                found.append(f"{where}: nothing says what {name} guards (COLLA_GUARDED_BY)")
    return found


def long_files(root):
    found = []
    for folder, most in ("bench", 500), ("examples", 500), ("include", 200), ("src", 500), ("tests", 500):
        for file in sorted([*root.glob(f"{folder}/**/*.h"), *root.glob(f"{folder}/**/*.cc")]):
            lines = file.read_text().count("\n")
            if lines > most:
                found.append(f"{file.relative_to(root)}: {lines} lines, {most} at most")
    return found


def main(root):
    found = collisions(root) + bare_mutexes(root) + long_files(root)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve()))
