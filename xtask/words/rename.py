#!/usr/bin/env python3
"""Renames words by the tables beside this file. Usage: rename.py WORKTREE [--dry] [--check]

table.tsv   kind  old  new  scope  [not]      scope and not are regular expressions over paths
  part      a part of identifiers in code (snake, Camel and UPPER are derived from the snake form)
  ident     a whole identifier in code
  prose     a regular expression over prose: comments and documents (case of the first letter is kept)
  string    a regular expression over the contents of string literals
  code      a regular expression over the code of a file, before its identifiers
  doc       a regular expression over whole documents, code blocks included
  keep      an identifier that no part rule touches
  move      git mv old new (a file or a folder); paths in documents and comments follow
Rules of one kind apply in the order of the table; `ident` goes before `part`.
Run on a clean tree. Running twice changes nothing more.
"""
import os, re, subprocess, sys
HERE = os.path.dirname(os.path.abspath(__file__))

def table():
    rules = {k: [] for k in ("part", "ident", "prose", "string", "keep", "move", "code", "doc")}
    for number, line in enumerate(open(os.path.join(HERE, "table.tsv"), encoding="utf-8"), 1):
        line = line.rstrip("\n")
        if not line.strip() or line.startswith("#"):
            continue
        cells = [cell.strip() for cell in line.split("\t") if cell.strip() != ""]
        if cells[0] not in rules:
            sys.exit(f"table.tsv:{number}: kind {cells[0]}")
        cells += [""] * (5 - len(cells))
        # The rooms into which the command line was split have its words.
        for i in (3, 4):
            cells[i] = re.sub(r"crates/cli\b", "crates/(?:cli|session|studies|console|work|doctor)", cells[i])
            cells[i] = re.sub(r"(?<=[(|])cli(?=[)|])", "cli|session|studies|console|work|doctor", cells[i])
        rules[cells[0]].append(tuple(cells[1:5]))
    return rules

def camel(snake): return "".join(w[:1].upper() + w[1:] for w in snake.split("_"))

def applies(path, scope, unless):
    return (not scope or re.search(scope, path)) and not (unless and re.search(unless, path))

IDENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

class Rules:
    """The rules that hold in one file."""
    def __init__(self, rules, path):
        self.ident, self.is_code = {}, path.endswith(".rs")
        for old, new, scope, unless in rules["ident"]:
            if applies(path, scope, unless): self.ident.setdefault(old, new)
        self.keep = {old for old, _, scope, unless in rules["keep"] if applies(path, scope if scope else "", unless)}
        self.parts = [(o, n) for o, n, s, u in rules["part"] if applies(path, s, u)]
        self.prose = [(re.compile(o), n) for o, n, s, u in rules["prose"] if applies(path, s, u)]
        self.string = [(re.compile(o), n) for o, n, s, u in rules["string"] if applies(path, s, u)]
        self.doc = [(re.compile(o), n) for o, n, s, u in rules["doc"] if applies(path, s, u)]
        self.exact = [(re.compile(o), n) for o, n, s, u in rules["code"] if applies(path, s, u)]
        self.cache = {}
    def name(self, word):
        if word not in self.cache: self.cache[word] = self._name(word)
        return self.cache[word]
    def _name(self, word):
        if word in self.keep: return word
        if word in self.ident: return self.ident[word]
        for old, new in self.parts:
            if word.isupper():
                word = re.sub(rf"(?<![A-Z0-9]){old.upper()}(?![A-Z0-9])", new.upper(), word)
            else:
                word = re.sub(rf"(?<![A-Za-z0-9]){old}(?![a-z0-9])", new, word)
                word = re.sub(rf"{camel(old)}(?![a-z])", camel(new), word)
        return word
    def code(self, text):
        for pattern, new in self.exact: text = pattern.sub(new, text)
        def one(m):
            word = m.group(0)
            after = text[m.end():m.end() + 2]
            before = text[max(0, m.start() - 1):m.start()]
            if word == "lines" and before == "." and after == "()": return word
            return self.name(word)
        return IDENT.sub(one, text)
    def words(self, text):
        for pattern, new in self.prose:
            def one(m):
                out = m.expand(new)
                first = m.group(0)[:1]
                return out[:1].upper() + out[1:] if first.isupper() else out
            text = pattern.sub(one, text)
        return text
    def comment(self, text):
        """Prose with `code` and [`links`]."""
        def piece(p):
            # A link's target: code in sources; in documents a path, which the moves rename.
            if p.startswith("]("): return self.code(p) if self.is_code else p
            if p.startswith("["): return p
            if p.startswith("`//"): return self.words(p)
            if p.startswith("`"): return self.code(p)
            return self.words(p)
        return "".join(map(piece, re.split(r"(`[^`\n]*`|\]\([^)\n]*\)|\[[a-z_]+\.rs(?=\]))", text)))
    def literal(self, text):
        text = re.sub(r"(?<!\{)\{([a-z_][a-z0-9_]*)(?=[:}])", lambda m: "{" + self.name(m.group(1)), text)
        for pattern, new in self.string: text = pattern.sub(new, text)
        return text

LEX = re.compile(r"""
   (?P<line>//[^\n]*(?:\n[ \t]*//[^\n]*)*) | (?P<block>/\*.*?\*/)
 | (?P<raw>b?r(?P<h>\#*)".*?"(?P=h)) | (?P<str>b?"(?:[^"\\]|\\.)*") | (?P<char>b?'(?:[^'\\\n]|\\(?:x..|u\{[^}]*\}|.))')
""", re.S | re.X)

def rust(text, rules):
    out, at = [], 0
    for m in LEX.finditer(text):
        out.append(rules.code(text[at:m.start()])); at = m.end()
        kind = m.lastgroup if m.lastgroup != "h" else "raw"
        body = m.group(0)
        if m.group("line"):
            out.append(comment_block(body, rules))
        elif m.group("block"): out.append(rules.comment(body))
        elif m.group("raw") or m.group("str"): out.append(rules.literal(body))
        else: out.append(body)
    out.append(rules.code(text[at:]))
    return "".join(out)

def comment_block(body, rules):
    """Consecutive comment lines; code blocks in documentation are code."""
    lines, fence = [], False
    for line in body.split("\n"):
        if "```" in line: fence = not fence; lines.append(line); continue
        if fence:
            m = re.match(r"\s*//[/!]? ?", line)
            lines.append(m.group(0) + rules.code(line[m.end():]))
        else: lines.append(rules.comment(line))
    return "\n".join(lines)

def markdown(text, rules):
    out, fence = [], None
    for line in text.split("\n"):
        if line.startswith("```"):
            fence = None if fence is not None else line[3:].strip(); out.append(line)
        elif fence is not None and fence.startswith("rust"): out.append(rules.code(line))
        elif fence is not None: out.append(rules.words(re.sub(r"\b[A-Z][a-z]+[A-Za-z]*::\w+|\b[A-Z][a-z]+[A-Z]\w*", lambda m: rules.code(m.group(0)), line)) if fence in ("", "text") else line)
        else: out.append(rules.comment(line))
    return "\n".join(out)

def git(*args): return subprocess.run(["git", *args], capture_output=True, text=True, check=True).stdout

def main():
    os.chdir(sys.argv[1]); dry = "--dry" in sys.argv
    rules = table()
    moves = []
    for old, new, _, _ in rules["move"]:
        if not os.path.exists(old): continue
        moves.append((old, new))
    files = [f for f in git("ls-files").split("\n") if re.search(r"\.(rs|md|h|c|toml)$|rs\.txt$|^tests/golden/|report\.schema\.json$|reproduce/data/.*\.csv$", f) and os.path.exists(f)
             and not re.search(r"LICENSE|CHANGELOG|Cargo\.lock|^xtask/src/tidy/words", f)]
    for path in files:
        text = open(path, encoding="utf-8").read()
        own = Rules(rules, path)
        new = text
        if path.endswith((".rs", ".rs.txt")): new = rust(text, own)
        elif path.startswith("tests/golden") or path.endswith((".json", ".csv")):
            for pattern, by in own.doc: new = pattern.sub(by, new)
        elif path.endswith(".md"):
            new = markdown(text, own)
            for pattern, by in own.doc: new = pattern.sub(by, new)
        elif path.endswith((".h", ".c")): new = rust(text, own)
        elif path.endswith(".toml"):
            new = "\n".join(l if not l.lstrip().startswith("#") else own.comment(l) for l in text.split("\n"))
        for old, renamed in moves:
            new = new.replace(old, renamed)
            short_old, short_new = [p.removeprefix("crates/").replace("/src/", "/") for p in (old, renamed)]
            if short_old.endswith(".rs"): new = new.replace(short_old, short_new)
            base = os.path.basename(old)
            if path.endswith(".md") and base.endswith(".rs") and renamed in new:
                new = re.sub(rf"\[{re.escape(base)}\]\((?=[^)]*{re.escape(renamed)}\))", f"[{os.path.basename(renamed)}](", new)
        if new != text:
            if dry: print(path)
            else: open(path, "w", encoding="utf-8").write(new)
    if not dry:
        for old, new in moves:
            os.makedirs(os.path.dirname(new), exist_ok=True)
            git("mv", old, new)
main()
